// What the kernels share: vectors of floats, and loops over XLA's own threads.

#ifndef OFFMAP_PARALLEL_H_
#define OFFMAP_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32, 2>;

constexpr int64_t kLanes = 16;  // floats handled at once
using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));

// By halves: a plain loop would wait for each of its additions.
inline float sum(Vec a) {
  const auto b = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7) +
                 __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto c = __builtin_shufflevector(b, b, 0, 1, 2, 3) + __builtin_shufflevector(b, b, 4, 5, 6, 7);
  return (c[0] + c[1]) + (c[2] + c[3]);
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
