// The nearest point of every query, exactly: by squared distances that are summed from the differences themselves.
//
// For all but a few pairs a cheaper number will do. With a and b measured from a point c amid the points,
//
//   |a - b|^2 = |a|^2 + 2 s,   s = |b|^2 / 2 - a.b
//
// takes half the arithmetic, but loses digits, of which a bound e is known. Points whose s - e is above the least s + e
// cannot be the nearest; the others, mostly one, are measured by their differences. Where numbers are not finite, or
// their squares are not, the bound says nothing, and all points are measured.

#include <cmath>
#include <cstring>
#include <limits>

#include "parallel.h"

namespace {

constexpr int64_t kQueries = kTile + 1, kVectors = kTile - 1;  // a block of this many running sums fits into registers
constexpr int64_t kPoints = kVectors * kLanes;
constexpr int64_t kRowsForCentre = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kEpsilon = std::numeric_limits<float>::epsilon();
using Indices = ffi::Buffer<ffi::S32, 1>;

// The mean of some rows: any point amid them serves.
std::vector<float> centre_of(const Array& a) {
  const int64_t count = a.dimensions()[0], columns = a.dimensions()[1];
  const int64_t n = std::min(count, kRowsForCentre);
  std::vector<float> centre(columns);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t d = 0; d < columns; ++d) centre[d] += a.typed_data()[i * count / n * columns + d] / n;
  return centre;
}

// Points from their centre, by blocks of kPoints, in each a row of kVectors vectors for every column.
struct Points {
  const Array& array;
  int64_t count, columns;
  std::vector<float> centre;
  Vec *data, *half_square, *norm;
  bool finite = true;
  Points(ffi::ThreadPool& pool, const Array& a)
      : array(a), count(a.dimensions()[0]), columns(a.dimensions()[1]), centre(centre_of(a)),
        data(kept<0>(blocks() * columns * kVectors)), half_square(kept<1>(blocks() * kVectors)),
        norm(kept<2>(blocks() * kVectors)) {
    in_parallel(pool, blocks() * kVectors, 6.0 * count * columns, [&](int64_t first, int64_t last) {
      for (int64_t v = first; v < last; ++v) pack(v);
    });
    for (int64_t i = 0; i < count; ++i) finite = finite && std::isfinite(norm[i / kLanes][i % kLanes]);
  }
  // Vector v of points: kLanes rows side by side, column after column.
  void pack(int64_t v) {
    const float* rows[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) rows[lane] = row(std::min(v * kLanes + lane, count - 1));
    Vec* to = data + v / kVectors * columns * kVectors + v % kVectors;
    Vec square = {};
    for (int64_t d = 0; d < columns; ++d) {
      Vec value;
      for (int64_t lane = 0; lane < kLanes; ++lane) value[lane] = rows[lane][d];
      value -= centre[d];
      square += value * value;
      to[d * kVectors] = value;
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      if (v * kLanes + lane >= count) square[lane] = kInfinity;  // padding is never near
      norm[v][lane] = std::sqrt(square[lane]);
    }
    half_square[v] = square * 0.5f;
  }
  int64_t blocks() const { return (count + kPoints - 1) / kPoints; }
  const Vec* block(int64_t i) const { return &data[i * columns * kVectors]; }
  const float* row(int64_t i) const { return array.typed_data() + i * columns; }
};

float squared_distance(const float* a, const float* b, int64_t columns) {
  Vec total = {};
  int64_t d = 0;
  for (; d + kLanes <= columns; d += kLanes) {
    Vec x, y;
    std::memcpy(&x, a + d, sizeof(x));
    std::memcpy(&y, b + d, sizeof(y));
    total += (x - y) * (x - y);
  }
  float sum = 0;
  for (; d < columns; ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  for (int64_t i = 0; i < kLanes; ++i) sum += total[i];
  return sum;
}

// A few queries, and s of each of them and every point.
struct Search {
  const Points& points;
  std::vector<float> from_centre;    // [column][query]
  std::vector<Vec> s[kQueries];
  float norm[kQueries];

  explicit Search(const Points& p) : points(p), from_centre(p.columns * kQueries) {
    for (auto& row : s) row.resize(p.blocks() * kVectors);
  }

  void measure(const float* const (&query)[kQueries]) {
    for (int64_t i = 0; i < kQueries; ++i) {
      float square = 0;
      for (int64_t d = 0; d < points.columns; ++d) {
        const float a = query[i][d] - points.centre[d];
        from_centre[d * kQueries + i] = a;
        square += a * a;
      }
      norm[i] = std::sqrt(square);
    }
    for (int64_t b = 0; b < points.blocks(); ++b) {
      const Vec* block = points.block(b);
      Vec total[kQueries][kVectors];
      for (int64_t i = 0; i < kQueries; ++i)
        for (int64_t v = 0; v < kVectors; ++v) total[i][v] = points.half_square[b * kVectors + v];
      for (int64_t d = 0; d < points.columns; ++d)
        for (int64_t i = 0; i < kQueries; ++i) {
          const float a = from_centre[d * kQueries + i];
          for (int64_t v = 0; v < kVectors; ++v) total[i][v] -= block[d * kVectors + v] * a;
        }
      for (int64_t i = 0; i < kQueries; ++i) std::memcpy(&s[i][b * kVectors], total[i], sizeof(total[i]));
    }
  }

  // e: rounding in sums of `columns` products, in the differences from the centre, and in the norms, with room to spare.
  Vec error(int64_t i, int64_t v) const {
    const Vec size = norm[i] + points.norm[v];
    return (points.columns + 8) * kEpsilon * size * size;
  }

  // The same by measuring every point. A distance that is no number is the nearest, so that it is seen.
  int32_t nearest_of_all(const float* query, int64_t self) const {
    float best = kInfinity;
    int32_t chosen = self == 0 ? 1 : 0;
    for (int64_t j = 0; j < points.count; ++j) {
      if (j == self) continue;
      const float squared = squared_distance(query, points.row(j), points.columns);
      if (std::isnan(squared)) return static_cast<int32_t>(j);
      if (squared < best) best = squared, chosen = static_cast<int32_t>(j);
    }
    return chosen;
  }

  // The nearest point of query i, which is row `self` of the points, or none of them if that is negative.
  int32_t nearest(int64_t i, const float* query, int64_t self) {
    if (!points.finite || !std::isfinite(norm[i])) return nearest_of_all(query, self);
    std::vector<Vec>& row = s[i];
    if (self >= 0) reinterpret_cast<float*>(row.data())[self] = kInfinity;
    Vec least = kInfinity + Vec{};
    for (size_t v = 0; v < row.size(); ++v) {
      const Vec upper = row[v] + error(i, v);
      least = upper < least ? upper : least;
    }
    float limit = kInfinity;
    for (int64_t lane = 0; lane < kLanes; ++lane) limit = std::min(limit, least[lane]);
    float best = kInfinity;
    int32_t chosen = 0;
    for (size_t v = 0; v < row.size(); ++v) {
      const auto near = row[v] - error(i, v) <= limit;
      if (!any(near)) continue;
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const int64_t j = v * kLanes + lane;
        if (!near[lane] || j == self || j >= points.count) continue;
        const float squared = squared_distance(query, points.row(j), points.columns);
        if (squared < best) best = squared, chosen = static_cast<int32_t>(j);
      }
    }
    return chosen;
  }
};

ffi::Error FindNearest(ffi::ThreadPool pool, Array queries, Array points, bool skip_self,
                       ffi::Result<Indices> chosen) {
  const int64_t count = queries.dimensions()[0], columns = queries.dimensions()[1];
  const Points where(pool, points);
  const double flops = 2.0 * count * where.count * columns;
  in_parallel(pool, (count + kQueries - 1) / kQueries, flops, [&](int64_t first, int64_t last) {
    Search search(where);
    for (int64_t q = first * kQueries; q < std::min(last * kQueries, count); q += kQueries) {
      const float* rows[kQueries];
      for (int64_t i = 0; i < kQueries; ++i) rows[i] = queries.typed_data() + std::min(q + i, count - 1) * columns;
      search.measure(rows);
      for (int64_t i = 0; i < std::min(kQueries, count - q); ++i)
        chosen->typed_data()[q + i] = search.nearest(i, rows[i], skip_self ? q + i : -1);
    }
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    offmap_nearest, FindNearest,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Attr<bool>("skip_self").Ret<Indices>());
