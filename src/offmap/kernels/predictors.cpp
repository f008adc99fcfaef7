// Values of many one-hidden-layer networks at the same inputs, and the gradient in their parameters.
//
//   f_s(x_t) = sum_h act(b_sh + sum_d x_td w_sdh) v_sh + c_s,   act(a) = max(0, a) or GELU by its tanh formula
//
// A vector holds one column of several inputs, a block of hidden units by several vectors lives in registers, and so
// hidden values are never written to memory: the backward pass computes them again.

#include <cstring>

#include "parallel.h"

namespace {

struct Shape {
  int64_t draws, inputs, columns, hidden, vectors;
  int64_t parameters() const { return (columns + 2) * hidden + 1; }
};

// One network's parameters, where they lie in theta: weights by column, biases, outgoing weights, and the last bias.
template <typename Float>
struct Parts {
  Float *weight, *bias, *out, *last;
  Parts(const Shape& s, Float* theta)
      : weight(theta), bias(theta + s.columns * s.hidden), out(bias + s.hidden), last(out + s.hidden) {}
};

struct Relu {
  // Where it is not zero it is its argument, so sums of values follow from sums of slopes.
  static constexpr bool kFromSlopes = true;
  static Vec value(Vec a) { return a < 0 ? Vec{} : a; }  // NaN stays NaN, so that a divergence is seen
  static Vec slope_times(Vec a, Vec g) { return a > 0 ? g : Vec{}; }
};

// e^x in float32: 2^k from the exponent's bits, the rest by its series. Beyond +-87 it stays what it is there.
inline Vec exponential(Vec x) {
  using Integers = int32_t __attribute__((vector_size(sizeof(Vec))));
  x = x > 87.0f ? 87.0f + Vec{} : x;
  x = x < -87.0f ? -87.0f + Vec{} : x;
  const Vec k = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // the nearest whole number: no digits are left behind it
  const Vec r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  Vec series = 1.0f / 5040 + Vec{};
  for (const float term : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) series = series * r + term;
  Integers power = (__builtin_convertvector(k, Integers) + 127) << 23;
  return series * reinterpret_cast<Vec&>(power);
}

struct Gelu {
  static constexpr bool kFromSlopes = false;
  static constexpr float kRate = 1.59576912f, kCubic = 0.044715f;  // 2 sqrt(2 / pi), and the formula's constant
  static Vec share(Vec a) { return 1.0f / (1.0f + exponential(a * (-kRate) * (1.0f + kCubic * a * a))); }
  static Vec value(Vec a) { return a * share(a); }
  static Vec slope_times(Vec a, Vec g) {
    const Vec s = share(a);
    return g * s * (1.0f + a * (1.0f - s) * kRate * (1.0f + 3 * kCubic * a * a));
  }
};

// The hidden values before the activation, of U units from h on at V vectors of inputs.
template <int64_t U, int64_t V>
inline void hidden(const Shape& s, const Parts<const float>& p, int64_t h, const Vec* x, Vec (&a)[U][V]) {
  for (int64_t u = 0; u < U; ++u)
    for (int64_t v = 0; v < V; ++v) a[u][v] = p.bias[h + u] + Vec{};
  for (int64_t d = 0; d < s.columns; ++d)
    for (int64_t u = 0; u < U; ++u) {
      const float w = p.weight[d * s.hidden + h + u];
      for (int64_t v = 0; v < V; ++v) a[u][v] += x[d * s.vectors + v] * w;
    }
}

// Calls work(U, first) over 0..n in blocks of the largest size first, sizes known to the compiler.
template <int64_t U, typename Work>
inline void in_blocks(int64_t first, int64_t n, const Work& work) {
  for (; first + U <= n; first += U) work(std::integral_constant<int64_t, U>(), first);
  if constexpr (U > 1) in_blocks<(U > 2 ? 2 : 1)>(first, n, work);
}

// The same, in blocks as even as can be: 13 vectors are 5 + 4 + 4, for a block of 1 leaves the units idle.
template <int64_t U, typename Work>
inline void in_even_blocks(int64_t first, int64_t n, const Work& work) {
  if constexpr (U > 0) {
    const int64_t blocks = (n - first + U - 1) / U;
    // As many blocks of U as leave the rest to be made of blocks of U - 1.
    const int64_t full = U == 1 ? blocks : std::max<int64_t>(0, (n - first) - blocks * (U - 1));
    for (int64_t i = 0; i < full; ++i, first += U) work(std::integral_constant<int64_t, U>(), first);
    if (first < n) in_even_blocks<U - 1>(first, n, work);
  }
}

template <typename Act>
void forward_draw(const Shape& s, const float* theta, const Vec* x, float* f) {
  const Parts<const float> p(s, theta);
  in_even_blocks<kTile>(0, s.vectors, [&](auto v_size, int64_t v) {
    constexpr int64_t V = v_size;
    Vec total[V];
    for (int64_t j = 0; j < V; ++j) total[j] = *p.last + Vec{};
    in_blocks<kTile>(0, s.hidden, [&](auto u_size, int64_t h) {
      constexpr int64_t U = u_size;
      Vec a[U][V];
      hidden<U, V>(s, p, h, x + v, a);
      for (int64_t u = 0; u < U; ++u)
        for (int64_t j = 0; j < V; ++j) total[j] += Act::value(a[u][j]) * p.out[h + u];
    });
    const int64_t n = std::min(V * kLanes, s.inputs - v * kLanes);
    std::memcpy(f + v * kLanes, total, n * sizeof(float));
  });
}

// Room for one block of units: what of the inputs' gradients passes their activation, and running sums of it.
struct Workspace {
  std::vector<Vec> incoming, passed, totals;
  explicit Workspace(const Shape& s)
      : incoming(s.vectors), passed(kTile * s.vectors), totals((s.columns + 2) * kTile + kLanes) {}
};

// For U units from h on: G_dh = sum_t x_td g_t act'(a_th) in the place of the weights' gradient, B_h = sum_t g_t act'(a_th)
// in that of the bias's, and, where it does not follow from these, sum_t g_t act(a_th) in that of the outgoing weight's.
template <typename Act, int64_t U>
void backward_units(const Shape& s, const Parts<const float>& p, const Parts<float>& grad, int64_t h, const Vec* x,
                    Workspace& room) {
  Vec* totals = room.totals.data();
  Vec bias[U] = {}, out[U] = {};
  in_even_blocks<kTile>(0, s.vectors, [&](auto v_size, int64_t v) {
    constexpr int64_t V = v_size;
    Vec a[U][V];
    hidden<U, V>(s, p, h, x + v, a);
    for (int64_t j = 0; j < V; ++j)
      for (int64_t u = 0; u < U; ++u) {
        const Vec passes = Act::slope_times(a[u][j], room.incoming[v + j]);
        bias[u] += passes;
        if constexpr (!Act::kFromSlopes) out[u] += Act::value(a[u][j]) * room.incoming[v + j];
        room.passed[u * s.vectors + v + j] = passes;
      }
  });
  in_even_blocks<kTile>(0, s.columns, [&](auto d_size, int64_t d) {
    constexpr int64_t D = d_size;
    Vec total[D][U] = {};
    for (int64_t v = 0; v < s.vectors; ++v)
      for (int64_t i = 0; i < D; ++i)
        for (int64_t u = 0; u < U; ++u) total[i][u] += x[(d + i) * s.vectors + v] * room.passed[u * s.vectors + v];
    for (int64_t i = 0; i < D; ++i)
      for (int64_t u = 0; u < U; ++u) totals[(d + i) * U + u] = total[i][u];
  });
  for (int64_t u = 0; u < U; ++u) totals[s.columns * U + u] = bias[u];
  for (int64_t u = 0; u < U; ++u) totals[(s.columns + 1) * U + u] = out[u];
  const int64_t n = (s.columns + (Act::kFromSlopes ? 1 : 2)) * U;
  for (int64_t first = 0; first < n; first += kLanes) totals[first / kLanes] = sums(totals + first);
  const float* total = reinterpret_cast<const float*>(totals);
  for (int64_t i = 0; i < n; i += U) std::memcpy(grad.weight + i / U * s.hidden + h, total + i, U * sizeof(float));
}

template <typename Act>
void backward_draw(const Shape& s, const float* theta, const Vec* x, const float* g, float* gradient, Workspace& room) {
  const Parts<const float> p(s, theta);
  const Parts<float> grad(s, gradient);
  std::memcpy(room.incoming.data(), g, s.inputs * sizeof(float));  // the padding stays zero: it sends nothing back
  in_blocks<kTile>(0, s.hidden, [&](auto u_size, int64_t h) { backward_units<Act, u_size>(s, p, grad, h, x, room); });
  // A ReLU's output is linear where it is active, so its outgoing weight's gradient is w.G + b B; and what reaches a
  // unit's weights and bias carries the outgoing weight. The biases follow the weights in theta, as one more column.
  if constexpr (Act::kFromSlopes) std::fill(grad.out, grad.out + s.hidden, 0.0f);
  for (int64_t d = 0; d <= s.columns; ++d)
    for (int64_t h = 0; h < s.hidden; ++h) {
      if constexpr (Act::kFromSlopes) grad.out[h] += p.weight[d * s.hidden + h] * grad.weight[d * s.hidden + h];
      grad.weight[d * s.hidden + h] *= p.out[h];
    }
  Vec total[kLanes] = {};
  for (int64_t v = 0; v < s.vectors; ++v) total[v % kLanes] += room.incoming[v];
  const Vec partial = sums(total);
  *grad.last = 0;
  for (int64_t i = 0; i < kLanes; ++i) *grad.last += partial[i];
}

// `x` comes with a row for every column, padded to whole vectors.
Shape shape_of(const Array& theta, const Array& x, int64_t inputs) {
  const int64_t columns = x.dimensions()[0];
  const int64_t hidden = (theta.dimensions()[1] - 1) / (columns + 2);
  return {theta.dimensions()[0], inputs, columns, hidden, x.dimensions()[1] / kLanes};
}

ffi::Error Forward(ffi::ThreadPool pool, Array theta, Array x, ffi::Result<Array> f, bool smooth) {
  const auto one_draw = smooth ? forward_draw<Gelu> : forward_draw<Relu>;
  const Shape s = shape_of(theta, x, f->dimensions()[1]);
  const Vec* inputs = reinterpret_cast<const Vec*>(x.typed_data());
  in_parallel(pool, s.draws, 2.0 * s.draws * s.inputs * s.parameters(), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      one_draw(s, theta.typed_data() + i * s.parameters(), inputs, f->typed_data() + i * s.inputs);
  });
  return ffi::Error::Success();
}

ffi::Error Backward(ffi::ThreadPool pool, Array theta, Array x, Array g, ffi::Result<Array> gradient, bool smooth) {
  const auto one_draw = smooth ? backward_draw<Gelu> : backward_draw<Relu>;
  const Shape s = shape_of(theta, x, g.dimensions()[1]);
  const Vec* inputs = reinterpret_cast<const Vec*>(x.typed_data());
  in_parallel(pool, s.draws, 4.0 * s.draws * s.inputs * s.parameters(), [&](int64_t first, int64_t last) {
    Workspace room(s);
    for (int64_t i = first; i < last; ++i)
      one_draw(s, theta.typed_data() + i * s.parameters(), inputs, g.typed_data() + i * s.inputs,
               gradient->typed_data() + i * s.parameters(), room);
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(offmap_forward, Forward,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Ret<Array>().Attr<bool>("smooth"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(offmap_backward, Backward,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Arg<Array>().Ret<Array>().Attr<bool>("smooth"));
