// Casts to fp8 (Micikevicius et al. 2022, arXiv:2209.05433) which also find the largest magnitude,
// and the transposed matrix that products on Hopper need: they read both factors along the sum.

#include <cuda_fp8.h>

#include "common.cuh"

namespace gimlet {
namespace {

// Magnitudes compare as their bits do, so that the maximum is one atomic operation on an integer.
__device__ void merge_largest(float* amax, float largest) {
  atomicMax(reinterpret_cast<int*>(amax), __float_as_int(largest));
}

template <typename T>
__global__ void largest(const T* values, int64_t count, float* amax) {
  float found = 0;
  for (int64_t index = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; index < count;
       index += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    found = fmaxf(found, fabsf(wide(values[index])));
  }
  found = block_reduce(found, 0.f, Max());
  if (threadIdx.x == 0) merge_largest(amax, found);
}

constexpr int kTile = 64;
constexpr int kThreads = 256;

__device__ __host__ int64_t tiles(int64_t extent) { return (extent + kTile - 1) / kTile; }

__device__ uint8_t to_fp8(float value, Fp8 format) {
  const auto kind = format == Fp8::kE4m3 ? __NV_E4M3 : __NV_E5M2;
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, kind);
}

template <typename T>
__global__ void cast(CastFp8 call) {
  __shared__ uint8_t tile[kTile][kTile + 4];  // rows apart by an odd number of banks
  const float scale = *call.scale;
  const unsigned across = tiles(call.columns);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x / across) * kTile;
  const int first_column = blockIdx.x % across * kTile;
  float found = 0;
  for (int index = threadIdx.x; index < kTile * kTile; index += kThreads) {
    const int i = index / kTile, j = index % kTile;
    const int64_t row = first_row + i;
    const int column = first_column + j;
    if (row >= call.rows || column >= call.columns) continue;
    const float value = wide(static_cast<const T*>(call.values)[row * call.columns + column]);
    found = fmaxf(found, fabsf(value));
    tile[i][j] = to_fp8(value * scale, call.format);
    if (call.narrow) static_cast<uint8_t*>(call.narrow)[row * call.columns + column] = tile[i][j];
  }
  if (call.amax) {
    found = block_reduce(found, 0.f, Max());
    if (threadIdx.x == 0) merge_largest(call.amax, found);
  }
  if (!call.transposed) return;
  __syncthreads();
  for (int index = threadIdx.x; index < kTile * kTile; index += kThreads) {
    const int j = index / kTile, i = index % kTile;
    const int64_t row = first_row + i;
    const int column = first_column + j;
    if (row >= call.rows || column >= call.columns) continue;
    static_cast<uint8_t*>(call.transposed)[column * call.rows + row] = tile[i][j];
  }
}

}  // namespace

cudaError_t largest_magnitude(const LargestMagnitude& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t needed = (call.count + kThreads - 1) / kThreads;
    const int blocks = static_cast<int>(needed < 2048 ? needed : 2048);
    launch(largest<T>, blocks, kThreads, stream, static_cast<const T*>(call.values), call.count,
           call.amax);
  });
}

cudaError_t cast_fp8(const CastFp8& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    // In one axis, since the other axes of a grid end at 65535 blocks.
    launch(cast<T>, tiles(call.columns) * tiles(call.rows), kThreads, stream, call);
  });
}

}  // namespace gimlet
