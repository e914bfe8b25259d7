// Stands in for CUDA's header of this name, so that a C++ compiler makes programs of the kernels in
// `bridge/kernels/` that run on the CPU, under sanitizers. It has as much of CUDA as they use.
//
// The threads of a block are fibers of one thread of the host (`device.cpp`). They take turns at
// barriers and shuffles only, in an order that `emulated::order` chooses. Blocks run one after the other.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>

#define __global__
#define __device__
#define __host__
// One copy for each block would do the same: only one block runs at a time. The program has no other
// variables of this storage, so `device.cpp` finds them all, to overwrite them before each block.
#define __shared__ static thread_local

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };
using cudaStream_t = struct Stream*;

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

struct alignas(8) float2 {
  float x, y;
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

// The order in which blocks, the warps of a block and the lanes of a warp run.
enum class Order { kForward, kBackward, kShuffled };
extern Order order;

// Only so many blocks run of each end of a grid.
extern int64_t blocks_of_each_end;

void launch(dim3 grid, dim3 block, const std::function<void()>& kernel);

// Stores eight bytes of the calling lane, waits for its warp, and returns those of another lane.
uint64_t exchanged(uint64_t value, unsigned lane);

}  // namespace emulated

cudaError_t cudaGetLastError();

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
};

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  emulated::launch(config->gridDim, config->blockDim, [=] { kernel(arguments...); });
  return cudaSuccess;
}

void __syncthreads();

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  if (mask != 0xffffffffu) std::abort();  // no kernel leaves lanes out
  uint64_t bytes = 0;
  std::memcpy(&bytes, &value, sizeof(T));
  bytes = emulated::exchanged(bytes, (threadIdx.x % 32) ^ static_cast<unsigned>(distance));
  std::memcpy(&value, &bytes, sizeof(T));
  return value;
}

[[noreturn]] void __trap();

inline int atomicMax(int* address, int value) {
  const int old = *address;
  if (value > old) *address = value;
  return old;
}

inline int __float_as_int(float value) {
  int bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Four of the eight bytes of two numbers, each named by a digit of `selector`, the lowest first.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = low | uint64_t{high} << 32;
  unsigned chosen = 0;
  for (int at = 0; at < 4; ++at) chosen |= (bytes >> 8 * (selector >> 4 * at & 7) & 0xff) << 8 * at;
  return chosen;
}

inline float rsqrtf(float value) { return 1.f / sqrtf(value); }

template <typename T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
T max(T a, T b) {
  return a < b ? b : a;
}
