// Values of many one-hidden-layer ReLU networks at the same inputs, and the gradient in their parameters.
//
//   f_s(x_t) = sum_h max(0, b_sh + sum_d x_td w_sdh) v_sh + c_s
//
// One network's weights stay in the first-level cache while its inputs stream by, and hidden values live in registers:
// they are recomputed in the backward pass rather than written to memory and read back.

#include <cstring>

#include "parallel.h"

namespace {

constexpr int64_t kRows = 8;  // inputs handled at once

struct Shape {
  int64_t draws, inputs, columns, hidden;
  int64_t blocks() const { return (hidden + kLanes - 1) / kLanes; }
  int64_t parameters() const { return (columns + 2) * hidden + 1; }
};

// One network's parameters by blocks of kLanes hidden units, zero-padded: weights [block][column], then bias, then out.
struct Packed {
  std::vector<Vec> weight, bias, out;
  explicit Packed(const Shape& s) : weight(s.blocks() * s.columns), bias(s.blocks()), out(s.blocks()) {}
  void load(const Shape& s, const float* theta) {
    const float* b = theta + s.columns * s.hidden;
    for (int64_t k = 0; k < s.blocks(); ++k) {
      const int64_t n = std::min(kLanes, s.hidden - k * kLanes);
      auto copy = [&](Vec& to, const float* from) {
        to = Vec{};
        std::memcpy(&to, from + k * kLanes, n * sizeof(float));
      };
      for (int64_t d = 0; d < s.columns; ++d) copy(weight[k * s.columns + d], theta + d * s.hidden);
      copy(bias[k], b);
      copy(out[k], b + s.hidden);
    }
  }
  void store(const Shape& s, float* theta) const {
    float* b = theta + s.columns * s.hidden;
    for (int64_t k = 0; k < s.blocks(); ++k) {
      const int64_t n = std::min(kLanes, s.hidden - k * kLanes);
      auto copy = [&](float* to, const Vec& from) { std::memcpy(to + k * kLanes, &from, n * sizeof(float)); };
      for (int64_t d = 0; d < s.columns; ++d) copy(theta + d * s.hidden, weight[k * s.columns + d]);
      copy(b, bias[k]);
      copy(b + s.hidden, out[k]);
    }
  }
};

inline Vec relu(Vec a) { return a < 0 ? Vec{} : a; }  // NaN stays NaN, so that a divergence is seen

template <int64_t R>
inline void hidden(const Shape& s, const Packed& p, int64_t k, const float* x, Vec* a) {
  for (int64_t r = 0; r < R; ++r) a[r] = p.bias[k];
  for (int64_t d = 0; d < s.columns; ++d) {
    const Vec w = p.weight[k * s.columns + d];
    for (int64_t r = 0; r < R; ++r) a[r] += x[r * s.columns + d] * w;
  }
}

template <int64_t R>
inline void forward_rows(const Shape& s, const Packed& p, const float* x, float c, float* f) {
  Vec total[R] = {};
  for (int64_t k = 0; k < s.blocks(); ++k) {
    Vec a[R];
    hidden<R>(s, p, k, x, a);
    for (int64_t r = 0; r < R; ++r) total[r] += relu(a[r]) * p.out[k];
  }
  for (int64_t r = 0; r < R; ++r) f[r] = sum(total[r]) + c;
}

void forward_draw(const Shape& s, Packed& p, const float* theta, const float* x, float* f) {
  p.load(s, theta);
  const float c = theta[s.parameters() - 1];
  int64_t t = 0;
  for (; t + kRows <= s.inputs; t += kRows) forward_rows<kRows>(s, p, x + t * s.columns, c, f + t);
  for (; t < s.inputs; ++t) forward_rows<1>(s, p, x + t * s.columns, c, f + t);
}

template <int64_t R>
inline void backward_rows(const Shape& s, const Packed& p, Packed& grad, int64_t k, const float* x, const float* g) {
  Vec a[R];
  hidden<R>(s, p, k, x, a);
  for (int64_t r = 0; r < R; ++r) {
    grad.out[k] += relu(a[r]) * g[r];
    a[r] = a[r] > 0 ? p.out[k] * g[r] : Vec{};
    grad.bias[k] += a[r];
  }
  for (int64_t d = 0; d < s.columns; ++d) {
    Vec w = grad.weight[k * s.columns + d];
    for (int64_t r = 0; r < R; ++r) w += x[r * s.columns + d] * a[r];
    grad.weight[k * s.columns + d] = w;
  }
}

void backward_draw(const Shape& s, Packed& p, Packed& grad, const float* theta, const float* x, const float* g,
                   float* gradient) {
  p.load(s, theta);
  std::fill(grad.weight.begin(), grad.weight.end(), Vec{});
  std::fill(grad.bias.begin(), grad.bias.end(), Vec{});
  std::fill(grad.out.begin(), grad.out.end(), Vec{});
  for (int64_t k = 0; k < s.blocks(); ++k) {
    int64_t t = 0;
    for (; t + kRows <= s.inputs; t += kRows) backward_rows<kRows>(s, p, grad, k, x + t * s.columns, g + t);
    for (; t < s.inputs; ++t) backward_rows<1>(s, p, grad, k, x + t * s.columns, g + t);
  }
  grad.store(s, gradient);
  float c = 0;
  for (int64_t t = 0; t < s.inputs; ++t) c += g[t];
  gradient[s.parameters() - 1] = c;
}

Shape shape_of(const Array& theta, const Array& x) {
  const int64_t columns = x.dimensions()[1];
  return {theta.dimensions()[0], x.dimensions()[0], columns, (theta.dimensions()[1] - 1) / (columns + 2)};
}

ffi::Error Forward(ffi::ThreadPool pool, Array theta, Array x, ffi::Result<Array> f) {
  const Shape s = shape_of(theta, x);
  in_parallel(pool, s.draws, 2.0 * s.draws * s.inputs * s.parameters(), [&](int64_t first, int64_t last) {
    Packed p(s);
    for (int64_t i = first; i < last; ++i)
      forward_draw(s, p, theta.typed_data() + i * s.parameters(), x.typed_data(), f->typed_data() + i * s.inputs);
  });
  return ffi::Error::Success();
}

ffi::Error Backward(ffi::ThreadPool pool, Array theta, Array x, Array g, ffi::Result<Array> gradient) {
  const Shape s = shape_of(theta, x);
  in_parallel(pool, s.draws, 4.0 * s.draws * s.inputs * s.parameters(), [&](int64_t first, int64_t last) {
    Packed p(s), grad(s);
    for (int64_t i = first; i < last; ++i)
      backward_draw(s, p, grad, theta.typed_data() + i * s.parameters(), x.typed_data(),
                    g.typed_data() + i * s.inputs, gradient->typed_data() + i * s.parameters());
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(offmap_forward, Forward,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(offmap_backward, Backward,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Arg<Array>().Ret<Array>());
