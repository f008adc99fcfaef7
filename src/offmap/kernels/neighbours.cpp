// The nearest point of every query, by squared distances that are summed from the differences themselves.
//
// Blocks of 4 queries by 4 points keep 16 running sums in registers, so every row that is loaded serves four times, and
// neither the matrix of distances nor that of differences is ever written.

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

void nearest_of_block(const Rows& queries, const Rows& points, int64_t q, bool skip_self, int32_t* chosen) {
  float best[kBlock];
  std::fill(best, best + kBlock, std::numeric_limits<float>::infinity());
  int32_t index[kBlock] = {};
  for (int64_t p = 0; p < points.count; p += kBlock) {
    Vec total[kBlock][kBlock] = {};
    for (int64_t v = 0; v < queries.vectors; ++v)
      for (int64_t i = 0; i < kBlock; ++i)
        for (int64_t j = 0; j < kBlock; ++j) {
          const Vec difference = queries.row(q + i)[v] - points.row(p + j)[v];
          total[i][j] += difference * difference;
        }
    for (int64_t i = 0; i < kBlock; ++i)
      for (int64_t j = 0; j < kBlock && p + j < points.count; ++j) {
        if (skip_self && q + i == p + j) continue;
        const float squared = sum(total[i][j]);
        if (squared < best[i]) best[i] = squared, index[i] = static_cast<int32_t>(p + j);
      }
  }
  for (int64_t i = 0; i < kBlock && q + i < queries.count; ++i) chosen[q + i] = index[i];
}

ffi::Error Nearest(ffi::ThreadPool pool, Array queries, Array points, bool skip_self,
                   ffi::Result<Indices> chosen) {
  const Rows q(queries), p(points);
  const int64_t blocks = (q.count + kBlock - 1) / kBlock;
  in_parallel(pool, blocks, 3.0 * q.count * p.count * q.vectors * kLanes, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) nearest_of_block(q, p, b * kBlock, skip_self, chosen->typed_data());
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    offmap_nearest, Nearest,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Attr<bool>("skip_self").Ret<Indices>());
