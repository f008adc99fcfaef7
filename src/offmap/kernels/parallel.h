// What the kernels share: vectors of floats, and loops over XLA's own threads.

#ifndef OFFMAP_PARALLEL_H_
#define OFFMAP_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32, 2>;

#ifdef __AVX512F__
constexpr int64_t kLanes = 16;  // floats handled at once
constexpr int64_t kTile = 5;    // a block of kTile by kTile running sums fits into the 32 registers
#else
constexpr int64_t kLanes = 8;
constexpr int64_t kTile = 3;
#endif
using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));

// Room for n vectors, kept by the thread from call to call: fresh memory costs more than the work that is done in it.
template <int kWhich>
inline Vec* kept(int64_t n) {
  static thread_local std::vector<Vec> memory;
  if (memory.size() < static_cast<size_t>(n)) memory.resize(n);
  return memory.data();
}

// Lanes in groups of W, from a and b in turns: in every group the sums of two neighbouring groups of one of them.
template <int W, int... I>
inline Vec fold(Vec a, Vec b, std::integer_sequence<int, I...>) {
  constexpr int kSize = static_cast<int>(kLanes);
  return __builtin_shufflevector(a, b, (I % W + I / W / 2 * 2 * W + I / W % 2 * kSize)...) +
         __builtin_shufflevector(a, b, (I % W + I / W / 2 * 2 * W + I / W % 2 * kSize + W)...);
}

template <int W>
inline Vec fold_all(const Vec* a) {
  Vec half[W];
  for (int i = 0; i < W; ++i) half[i] = fold<W>(a[i], a[i + W], std::make_integer_sequence<int, kLanes>());
  if constexpr (W > 1) {
    return fold_all<W / 2>(half);
  } else {
    return half[0];
  }
}

// The sums of kLanes vectors at once, lane i that of a[i]: a quarter of the work of summing one after another.
inline Vec sums(const Vec* a) { return fold_all<kLanes / 2>(a); }

// Whether a comparison held in any lane: by halves, since a loop would take lanes out one by one.
template <typename Mask>
inline bool any(const Mask& mask) {
  uint64_t words[sizeof(Mask) / 8], found = 0;
  std::memcpy(words, &mask, sizeof(mask));
  for (uint64_t word : words) found |= word;
  return found != 0;
}

// Runs work(first, last) over shares of the draws on XLA's own threads; the caller takes a share too.
template <typename Work>
void in_parallel(ffi::ThreadPool& pool, int64_t n, double flops, const Work& work) {
  const int64_t threads = std::max<int64_t>(1, std::min<int64_t>({pool.num_threads(), n, int64_t(flops / 2e5)}));
  if (threads == 1) return work(0, n);
  const int64_t size = std::max<int64_t>(1, n / (threads * 8)), chunks = (n + size - 1) / size;
  struct Shared {
    std::atomic<int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable all_done;
  };
  auto shared = std::make_shared<Shared>();
  // A helper that starts late finds no chunk left and touches only `shared`: nobody waits for helpers, only for chunks.
  auto help = [shared, n, size, chunks, &work] {
    for (int64_t i; (i = shared->next.fetch_add(1)) < chunks;) {
      work(i * size, std::min(n, (i + 1) * size));
      if (shared->done.fetch_add(1) + 1 == chunks) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->all_done.notify_one();
      }
    }
  };
  for (int64_t i = 1; i < threads; ++i) pool.Schedule(decltype(help)(help));
  help();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->all_done.wait(lock, [&] { return shared->done.load() == chunks; });
}

#endif  // OFFMAP_PARALLEL_H_
