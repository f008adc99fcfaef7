// Values of many one-hidden-layer ReLU networks at the same inputs, and the gradient in their parameters.
//
//   f_s(x_t) = sum_h max(0, b_sh + sum_d x_td w_sdh) v_sh + c_s
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

inline Vec relu(Vec a) { return a < 0 ? Vec{} : a; }  // NaN stays NaN, so that a divergence is seen

// The hidden values before ReLU, of U units from h on at V vectors of inputs.
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
        for (int64_t j = 0; j < V; ++j) total[j] += relu(a[u][j]) * p.out[h + u];
    });
    const int64_t n = std::min(V * kLanes, s.inputs - v * kLanes);
    std::memcpy(f + v * kLanes, total, n * sizeof(float));
  });
}

// Room for one block of units: which inputs' gradients pass their ReLU, and running sums of what passes.
struct Workspace {
  std::vector<Vec> incoming, passed, totals;
  explicit Workspace(const Shape& s)
      : incoming(s.vectors), passed(kTile * s.vectors), totals((s.columns + 1) * kTile + kLanes) {}
};

// For U units from h on: G_dh = sum_t x_td g_t [unit active at t] in the place of the weights' gradient, and
// B_h = sum_t g_t [unit active at t] in that of the bias's.
template <int64_t U>
void backward_units(const Shape& s, const Parts<const float>& p, const Parts<float>& grad, int64_t h, const Vec* x,
                    Workspace& room) {
  Vec* totals = room.totals.data();
  Vec bias[U] = {};
  in_even_blocks<kTile>(0, s.vectors, [&](auto v_size, int64_t v) {
    constexpr int64_t V = v_size;
    Vec a[U][V];
    hidden<U, V>(s, p, h, x + v, a);
    for (int64_t j = 0; j < V; ++j)
      for (int64_t u = 0; u < U; ++u) {
        const Vec passes = a[u][j] > 0 ? room.incoming[v + j] : Vec{};
        bias[u] += passes;
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
  const int64_t n = (s.columns + 1) * U;
  for (int64_t first = 0; first < n; first += kLanes) totals[first / kLanes] = sums(totals + first);
  const float* total = reinterpret_cast<const float*>(totals);
  for (int64_t i = 0; i < n; i += U) std::memcpy(grad.weight + i / U * s.hidden + h, total + i, U * sizeof(float));
}

void backward_draw(const Shape& s, const float* theta, const Vec* x, const float* g, float* gradient, Workspace& room) {
  const Parts<const float> p(s, theta);
  const Parts<float> grad(s, gradient);
  std::memcpy(room.incoming.data(), g, s.inputs * sizeof(float));  // the padding stays zero: it sends nothing back
  in_blocks<kTile>(0, s.hidden, [&](auto u_size, int64_t h) { backward_units<u_size>(s, p, grad, h, x, room); });
  // A unit's output is linear where it is active, so its outgoing weight's gradient is w.G + b B; and what reaches its
  // weights and bias carries the outgoing weight. The biases follow the weights in theta, as one more column.
  for (int64_t h = 0; h < s.hidden; ++h) grad.out[h] = 0;
  for (int64_t d = 0; d <= s.columns; ++d)
    for (int64_t h = 0; h < s.hidden; ++h) {
      grad.out[h] += p.weight[d * s.hidden + h] * grad.weight[d * s.hidden + h];
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

ffi::Error Forward(ffi::ThreadPool pool, Array theta, Array x, ffi::Result<Array> f) {
  const Shape s = shape_of(theta, x, f->dimensions()[1]);
  const Vec* inputs = reinterpret_cast<const Vec*>(x.typed_data());
  in_parallel(pool, s.draws, 2.0 * s.draws * s.inputs * s.parameters(), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      forward_draw(s, theta.typed_data() + i * s.parameters(), inputs, f->typed_data() + i * s.inputs);
  });
  return ffi::Error::Success();
}

ffi::Error Backward(ffi::ThreadPool pool, Array theta, Array x, Array g, ffi::Result<Array> gradient) {
  const Shape s = shape_of(theta, x, g.dimensions()[1]);
  const Vec* inputs = reinterpret_cast<const Vec*>(x.typed_data());
  in_parallel(pool, s.draws, 4.0 * s.draws * s.inputs * s.parameters(), [&](int64_t first, int64_t last) {
    Workspace room(s);
    for (int64_t i = first; i < last; ++i)
      backward_draw(s, theta.typed_data() + i * s.parameters(), inputs, g.typed_data() + i * s.inputs,
                    gradient->typed_data() + i * s.parameters(), room);
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(offmap_forward, Forward,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(offmap_backward, Backward,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Arg<Array>().Ret<Array>());
