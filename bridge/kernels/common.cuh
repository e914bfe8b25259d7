// The common parts of the kernels: numbers in packs of 16 bytes, and reductions over a block.
#pragma once

#include <cuda_bf16.h>

#include "kernels.h"

namespace gimlet {

constexpr int kWarp = 32;

__device__ inline float wide(float value) { return value; }
__device__ inline float wide(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ T narrow(float value);
template <>
__device__ inline float narrow<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);
}

// The value after a conversion to T and back, at points where libtorch would have stored it.
template <typename T>
__device__ float rounded(float value) {
  return wide(narrow<T>(value));
}

// As many numbers as one load or store moves, 16 bytes unless the kernel says otherwise.
template <typename T, int kCount = 16 / sizeof(T)>
struct alignas(kCount * sizeof(T)) Pack {
  static constexpr int kSize = kCount;
  T values[kCount];
};

template <typename T>
__device__ Pack<T> load(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}

template <typename T, int kCount>
__device__ void store(T* to, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The reduction of all threads' values, known to all of them. The block is whole warps.
template <typename Reduce>
__device__ float block_reduce(float value, float neutral, Reduce reduce) {
  __shared__ float of_warps[kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = reduce(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  const unsigned lane = threadIdx.x % kWarp;
  __syncthreads();  // an earlier reduction may still be read
  if (lane == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = lane < blockDim.x / kWarp ? of_warps[lane] : neutral;
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = reduce(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

inline int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// Starts a kernel, in CUDA's words for `kernel<<<grid, threads, 0, stream>>>(arguments...)` that any compiler of C++
// can read: `tests/numerics/cuda` runs the kernels on the CPU. `cudaGetLastError` returns the result.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

// Calls `body` with a value of the type that `dtype` names.
template <typename Body>
cudaError_t with_type(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::kFloat32: body(float{}); break;
    case Dtype::kBfloat16: body(__nv_bfloat16{}); break;
  }
  return cudaGetLastError();
}

}  // namespace gimlet
