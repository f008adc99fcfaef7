// Standard normal numbers: JAX's own stream (threefry on a 64-bit counter, then the inverse error function), in registers.

#include <cmath>
#include <cstring>

#include "parallel.h"

namespace {

using KeyData = ffi::Buffer<ffi::U32, 1>;
using Bits = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));

inline Bits rotate(Bits x, int by) { return (x << by) | (x >> (32 - by)); }

// The 20 rounds of threefry-2x32: both output words, combined as JAX does for 32-bit numbers.
inline Bits threefry(uint32_t k0, uint32_t k1, Bits x0, Bits x1) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  x0 += keys[0];
  x1 += keys[1];
#pragma GCC unroll 5
  for (int group = 0; group < 5; ++group) {
#pragma GCC unroll 4
    for (int round = 0; round < 4; ++round) {
      x0 += x1;
      x1 = rotate(x1, kRotations[group % 2][round]) ^ x0;
    }
    x0 += keys[(group + 1) % 3];
    x1 += keys[(group + 2) % 3] + static_cast<uint32_t>(group + 1);
  }
  return x0 ^ x1;
}

inline Vec as_floats(Bits x) { return reinterpret_cast<Vec&>(x); }
inline Bits as_bits(Vec x) { return reinterpret_cast<Bits&>(x); }
inline Vec to_floats(Bits x) { return __builtin_convertvector(x, Vec); }

template <int N>
inline Vec polynomial(Vec x, const float (&coefficients)[N]) {
  Vec total = coefficients[0] + Vec{};
  for (int i = 1; i < N; ++i) total = total * x + coefficients[i];
  return total;
}

// ln(x) for normal positive x: the exponent's share, and a series in s = (m - 1) / (m + 1) for the mantissa's.
inline Vec logarithm(Vec x) {
  const Bits bits = as_bits(x);
  Vec mantissa = as_floats((bits & 0x007FFFFFu) | 0x3F800000u);           // in [1, 2)
  Vec exponent = to_floats(bits >> 23) - 127.0f;
  const auto high = mantissa > 1.41421356f;
  mantissa = high ? mantissa * 0.5f : mantissa;
  exponent = high ? exponent + 1.0f : exponent;
  const Vec s = (mantissa - 1.0f) / (mantissa + 1.0f), square = s * s;
  const float series[] = {2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3, 2.0f};
  return exponent * 0.693147181f + s * polynomial(square, series);
}

inline Vec square_root(Vec x) {
  Vec root;
  for (int64_t i = 0; i < kLanes; ++i) root[i] = std::sqrt(x[i]);
  return root;
}

// The inverse error function by Giles' two polynomials in w = -ln(1 - x^2).
inline Vec inverse_error_function(Vec x) {
  const float centre[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                          -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  const float tail[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                        -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  const Vec w = -logarithm((1.0f - x) * (1.0f + x));
  const auto is_tail = w >= 5.0f;
  Vec factor = polynomial(w - 2.5f, centre);
  if (any(is_tail)) factor = is_tail ? polynomial(square_root(w) - 3.0f, tail) : factor;
  return factor * x;
}

inline Vec normals_at(uint32_t k0, uint32_t k1, int64_t first) {
  Bits high, low;
  for (int64_t i = 0; i < kLanes; ++i) {
    high[i] = static_cast<uint32_t>((first + i) >> 32);
    low[i] = static_cast<uint32_t>(first + i);
  }
  const Vec unit = as_floats((threefry(k0, k1, high, low) >> 9) | 0x3F800000u) - 1.0f;  // uniform on [0, 1)
  const float least = std::nextafter(-1.0f, 0.0f);
  Vec x = unit * (1.0f - least) + least;
  x = x < least ? least + Vec{} : x;
  return 1.41421356f * inverse_error_function(x);
}

ffi::Error Normals(ffi::ThreadPool pool, KeyData key, ffi::Result<ffi::AnyBuffer> out) {
  const int64_t n = out->element_count(), vectors = (n + kLanes - 1) / kLanes;
  const uint32_t k0 = key.typed_data()[0], k1 = key.typed_data()[1];
  float* data = out->typed_data<float>();
  in_parallel(pool, vectors, 100.0 * n, [&](int64_t first, int64_t last) {
    for (int64_t v = first; v < last; ++v) {
      const Vec values = normals_at(k0, k1, v * kLanes);
      std::memcpy(data + v * kLanes, &values, std::min(kLanes, n - v * kLanes) * sizeof(float));
    }
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    offmap_normals, Normals,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<KeyData>().Ret<ffi::AnyBuffer>());
