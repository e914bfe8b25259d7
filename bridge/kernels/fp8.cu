// Casts to fp8 (Micikevicius et al. 2022, arXiv:2209.05433) which also find the largest magnitude,
// and the transposed matrix that products on Hopper need: they read both factors along the sum.

#include <cuda_fp8.h>

#include "common.cuh"

namespace gimlet {
namespace {

// A thread reads so many numbers of a row at once, and casts so many rows.
constexpr int kPack = 8;

template <typename T>
struct alignas(16) Numbers {  // float32 is read in two loads
  T values[kPack];
};

template <typename T>
__device__ Numbers<T> read(const T* from) {
  return *reinterpret_cast<const Numbers<T>*>(from);
}

template <typename T>
__device__ float larger(float found, const Numbers<T>& numbers) {
  for (const T value : numbers.values) found = fmaxf(found, fabsf(wide(value)));
  return found;
}

// Magnitudes compare as their bits do, so that the maximum is one atomic operation on an integer.
__device__ void merge_largest(float* amax, float found) {
  found = block_reduce(found, 0.f, Max());
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(amax), __float_as_int(found));
}

template <typename T>
__global__ void largest(const T* values, int64_t packs, float* amax) {
  float found = 0;
  for (int64_t index = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; index < packs;
       index += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    found = larger(found, read(values + index * kPack));
  }
  merge_largest(amax, found);
}

// A word of four numbers, the first in the lowest byte.
template <typename T>
__device__ uint32_t to_fp8(const T* numbers, float scale, Fp8 format) {
  const auto pair = [&](int first) -> uint32_t {
    const float2 scaled{wide(numbers[first]) * scale, wide(numbers[first + 1]) * scale};
    return __nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, format == Fp8::kE4m3 ? __NV_E4M3 : __NV_E5M2);
  };
  return pair(0) | pair(2) << 16;
}

// Makes the columns of the rows of four bytes each.
__device__ void transpose(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  const uint32_t ab = __byte_perm(a, b, 0x5140), ab_right = __byte_perm(a, b, 0x7362);  // a0 b0 a1 b1, a2 b2 a3 b3
  const uint32_t cd = __byte_perm(c, d, 0x5140), cd_right = __byte_perm(c, d, 0x7362);
  a = __byte_perm(ab, cd, 0x5410);
  b = __byte_perm(ab, cd, 0x7632);
  c = __byte_perm(ab_right, cd_right, 0x5410);
  d = __byte_perm(ab_right, cd_right, 0x7632);
}

__device__ uint64_t joined(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }

// A block casts 128 rows of 64 numbers. Eight threads read 128 bytes of a row in bfloat16 and write 64. Each transposes
// its 8 x 8 numbers in registers, so that no memory is shared for it, and the four threads of a warp with the same
// columns write 32 bytes of each, a whole sector.
constexpr int kThreads = 128;
constexpr int kAcross = 8;
constexpr int kRows = kThreads / kAcross * kPack, kColumns = kAcross * kPack;

__device__ __host__ int64_t tiles(int64_t extent, int tile) { return (extent + tile - 1) / tile; }

template <typename T>
__global__ void cast(CastFp8 call) {
  const unsigned across = tiles(call.columns, kColumns);
  const int64_t row = static_cast<int64_t>(blockIdx.x / across) * kRows + threadIdx.x / kAcross * kPack;
  const int column = blockIdx.x % across * kColumns + threadIdx.x % kAcross * kPack;
  const int64_t rows_left = column < call.columns ? call.rows - row : 0;
  const int rows = rows_left < kPack ? max(static_cast<int>(rows_left), 0) : kPack;
  // Beyond an end numbers are read twice, so that all loads start before one is waited for.
  const int64_t first = rows > 0 ? row * call.columns + column : 0;
  Numbers<T> numbers[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    numbers[i] = read(static_cast<const T*>(call.values) + first + (i < rows ? i * call.columns : 0));
  }
  const float scale = *call.scale;
  float found = 0;
  uint32_t left[kPack], right[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    found = larger(found, numbers[i]);
    left[i] = to_fp8(numbers[i].values, scale, call.format);
    right[i] = to_fp8(numbers[i].values + kPack / 2, scale, call.format);
    if (call.narrow && i < rows) {
      uint8_t* to = static_cast<uint8_t*>(call.narrow) + first + i * call.columns;
      *reinterpret_cast<uint64_t*>(to) = joined(left[i], right[i]);
    }
  }
  if (call.transposed) {
#pragma unroll
    for (int i = 0; i < kPack; i += 4) {
      transpose(left[i], left[i + 1], left[i + 2], left[i + 3]);
      transpose(right[i], right[i + 1], right[i + 2], right[i + 3]);
    }
    const bool aligned = rows == kPack && call.rows % kPack == 0;
    uint8_t* to = static_cast<uint8_t*>(call.transposed) + column * call.rows + row;
#pragma unroll
    for (int j = 0; j < kPack; ++j, to += call.rows) {
      const uint32_t* words = (j < 4 ? left : right) + j % 4;
      const uint64_t below = joined(words[0], words[4]);
      if (aligned) *reinterpret_cast<uint64_t*>(to) = below;
#pragma unroll 1
      for (int i = 0; !aligned && i < rows; ++i) to[i] = static_cast<uint8_t>(below >> 8 * i);
    }
  }
  if (call.amax) merge_largest(call.amax, found);
}

}  // namespace

cudaError_t largest_magnitude(const LargestMagnitude& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t packs = call.count / kPack, needed = tiles(packs, kThreads);
    const int blocks = static_cast<int>(needed < 4096 ? needed : 4096);
    launch(largest<T>, blocks, kThreads, stream, static_cast<const T*>(call.values), packs, call.amax);
  });
}

cudaError_t cast_fp8(const CastFp8& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    // In one axis, since the other axes of a grid end at 65535 blocks.
    const int64_t blocks = tiles(call.columns, kColumns) * tiles(call.rows, kRows);
    launch(cast<decltype(type)>, blocks, kThreads, stream, call);
  });
}

}  // namespace gimlet
