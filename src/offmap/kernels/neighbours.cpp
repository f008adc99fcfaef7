// The nearest point of every query, by squared distances that are summed from the differences themselves.
//
// Blocks of 4 queries by 4 points keep 16 running sums in registers, so every row that is loaded serves four times, and
// neither the matrix of distances nor that of differences is ever written. Among the rows of one sample every pair is
// measured once, for both its rows.

#include <cstring>
#include <limits>

#include "parallel.h"

namespace {

constexpr int64_t kBlock = 4;
using Indices = ffi::Buffer<ffi::S32, 1>;

// Rows padded with zeros to whole vectors, and to whole blocks of rows.
struct Rows {
  int64_t count, vectors;
  std::vector<Vec> data;
  explicit Rows(const Array& a)
      : count(a.dimensions()[0]),
        vectors((a.dimensions()[1] + kLanes - 1) / kLanes),
        data((count + kBlock - 1) / kBlock * kBlock * vectors) {
    const int64_t columns = a.dimensions()[1];
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(&data[i * vectors], a.typed_data() + i * columns, columns * sizeof(float));
  }
  const Vec* row(int64_t i) const { return &data[i * vectors]; }
};

struct Best {
  float squared = std::numeric_limits<float>::infinity();
  int32_t index = 0;
  void see(float distance, int64_t of) {
    const auto i = static_cast<int32_t>(of);
    if (distance < squared || (distance == squared && i < index)) squared = distance, index = i;
  }
};

// Squared distances of every pair of a block of rows from q on and a block from p on, for `see(i, j, squared)`.
template <typename See>
inline void measure_block(const Rows& queries, const Rows& points, int64_t q, int64_t p, const See& see) {
  const Vec *a = queries.row(q), *b = points.row(p);
  const int64_t n = queries.vectors;
  Vec total[kBlock][kBlock] = {};
  for (int64_t v = 0; v < n; ++v)
    for (int64_t i = 0; i < kBlock; ++i)
      for (int64_t j = 0; j < kBlock; ++j) {
        const Vec difference = a[i * n + v] - b[j * n + v];
        total[i][j] += difference * difference;
      }
  for (int64_t i = 0; i < kBlock && q + i < queries.count; ++i)
    for (int64_t j = 0; j < kBlock && p + j < points.count; ++j) see(q + i, p + j, sum(total[i][j]));
}

void nearest_to_points(ffi::ThreadPool& pool, const Rows& queries, const Rows& points, std::vector<Best>& best) {
  const double flops = 3.0 * queries.count * points.count * queries.vectors * kLanes;
  in_parallel(pool, (queries.count + kBlock - 1) / kBlock, flops, [&](int64_t first, int64_t last) {
    for (int64_t q = first * kBlock; q < last * kBlock; q += kBlock)
      for (int64_t p = 0; p < points.count; p += kBlock)
        measure_block(queries, points, q, p, [&](int64_t i, int64_t j, float d) { best[i].see(d, j); });
  });
}

void nearest_to_others(ffi::ThreadPool& pool, const Rows& rows, std::vector<Best>& best) {
  std::mutex merging;
  const double flops = 1.5 * rows.count * rows.count * rows.vectors * kLanes;
  in_parallel(pool, (rows.count + kBlock - 1) / kBlock, flops, [&](int64_t first, int64_t last) {
    std::vector<Best> mine(rows.count);
    for (int64_t q = first * kBlock; q < last * kBlock; q += kBlock)
      for (int64_t p = q; p < rows.count; p += kBlock)
        measure_block(rows, rows, q, p, [&](int64_t i, int64_t j, float d) {
          if (i < j) mine[i].see(d, j), mine[j].see(d, i);
        });
    std::lock_guard<std::mutex> lock(merging);
    for (int64_t i = 0; i < rows.count; ++i) best[i].see(mine[i].squared, mine[i].index);
  });
}

ffi::Error Nearest(ffi::ThreadPool pool, Array queries, Array points, bool skip_self, ffi::Result<Indices> chosen) {
  const Rows q(queries);
  std::vector<Best> best(q.count);
  if (skip_self) {
    nearest_to_others(pool, q, best);
  } else {
    nearest_to_points(pool, q, Rows(points), best);
  }
  for (int64_t i = 0; i < q.count; ++i) chosen->typed_data()[i] = best[i].index;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    offmap_nearest, Nearest,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Attr<bool>("skip_self").Ret<Indices>());
