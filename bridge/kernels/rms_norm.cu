// RMS normalization with the residual sum before it (Zhang & Sennrich 2019, arXiv:1910.07467).
//
// A block holds its row in registers between the two passes over it. Values are rounded to T in the
// same places as by libtorch's operations, so that both give the same results except for the order
// of a sum.

#include "common.cuh"

namespace gimlet {
namespace {

template <typename T, int kPacks>
__global__ void forward(RmsNorm call) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t row = blockIdx.x, start = row * call.width;
  const T* residual = static_cast<const T*>(call.residual) + start;
  const T* branch = call.branch ? static_cast<const T*>(call.branch) + start : nullptr;
  const T* mask =
      call.mask ? static_cast<const T*>(call.mask) + row / call.rows_per_mask * call.width : nullptr;
  Pack<T> kept[kPacks];
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int column = (p * blockDim.x + threadIdx.x) * kSize;
    if (column >= call.width) break;
    kept[p] = load(residual + column);
    if (branch) {
      const Pack<T> added = load(branch + column);
      Pack<T> factors;
      if (mask) factors = load(mask + column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        float value = wide(added.values[i]);
        if (mask) value *= wide(factors.values[i]);
        kept[p].values[i] = narrow<T>(wide(kept[p].values[i]) + value);
      }
      store(static_cast<T*>(call.sum) + start + column, kept[p]);
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float value = wide(kept[p].values[i]);
      squares += value * value;
    }
  }
  squares = block_reduce(squares, 0.f, Sum());
  const float inverse = rsqrtf(squares / call.width + call.epsilon);
  if (threadIdx.x == 0) call.inverse_rms[row] = inverse;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int column = (p * blockDim.x + threadIdx.x) * kSize;
    if (column >= call.width) break;
    const Pack<T> scale = load(static_cast<const T*>(call.scale) + column);
    Pack<T> normal;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float unscaled = rounded<T>(wide(kept[p].values[i]) * inverse);
      normal.values[i] = narrow<T>(unscaled * wide(scale.values[i]));
    }
    store(static_cast<T*>(call.normal) + start + column, normal);
  }
}

// One row of the gradients; adds to the thread's own columns of the scale's.
template <typename T, int kPacks>
__device__ void backward_row(const RmsNormBackward& call, int64_t row,
                             float (&scale_gradient)[kPacks][Pack<T>::kSize]) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t start = row * call.width;
  const float inverse = call.inverse_rms[row];
  Pack<T> sums[kPacks], gradients[kPacks];
  float product = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int column = (p * blockDim.x + threadIdx.x) * kSize;
    if (column >= call.width) break;
    sums[p] = load(static_cast<const T*>(call.sum) + start + column);
    gradients[p] = load(static_cast<const T*>(call.normal_gradient) + start + column);
    const Pack<T> scale = load(static_cast<const T*>(call.scale) + column);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float value = wide(sums[p].values[i]), gradient = wide(gradients[p].values[i]);
      product += value * gradient * wide(scale.values[i]);
      scale_gradient[p][i] += gradient * rounded<T>(value * inverse);
    }
  }
  product = block_reduce(product, 0.f, Sum()) * inverse * inverse / call.width;
  const T* mask =
      call.mask ? static_cast<const T*>(call.mask) + row / call.rows_per_mask * call.width : nullptr;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int column = (p * blockDim.x + threadIdx.x) * kSize;
    if (column >= call.width) break;
    const Pack<T> scale = load(static_cast<const T*>(call.scale) + column);
    Pack<T> passed, result, masked, factors;
    if (call.sum_gradient) passed = load(static_cast<const T*>(call.sum_gradient) + start + column);
    if (mask) factors = load(mask + column);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float scaled = wide(gradients[p].values[i]) * wide(scale.values[i]);
      float gradient = (scaled - wide(sums[p].values[i]) * product) * inverse;
      if (call.sum_gradient) gradient += wide(passed.values[i]);
      result.values[i] = narrow<T>(gradient);
      if (mask) masked.values[i] = narrow<T>(gradient * wide(factors.values[i]));
    }
    store(static_cast<T*>(call.residual_gradient) + start + column, result);
    if (mask) store(static_cast<T*>(call.branch_gradient) + start + column, masked);
  }
}

template <typename T, int kPacks>
__global__ void backward(RmsNormBackward call) {
  constexpr int kSize = Pack<T>::kSize;
  float scale_gradient[kPacks][kSize] = {};
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    backward_row<T, kPacks>(call, row, scale_gradient);
  }
  float* sums = call.scale_gradients + static_cast<int64_t>(blockIdx.x) * call.width;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int column = (p * blockDim.x + threadIdx.x) * kSize;
    if (column >= call.width) break;
#pragma unroll
    for (int i = 0; i < kSize; ++i) sums[column + i] = scale_gradient[p][i];
  }
}

// Calls `launch` with the number of packs a thread holds, as a type, and the number of threads.
template <typename T, typename Launch>
void with_packs(int width, Launch launch) {
  const int packs = width / Pack<T>::kSize;
  const int threads = round_up(packs < 256 ? packs : 256, kWarp);
  const int each = (packs + threads - 1) / threads;
  if (each <= 1) {
    launch(std::integral_constant<int, 1>(), threads);
  } else if (each <= 2) {
    launch(std::integral_constant<int, 2>(), threads);
  } else if (each <= 4) {
    launch(std::integral_constant<int, 4>(), threads);
  } else {
    launch(std::integral_constant<int, 8>(), threads);
  }
}

}  // namespace

cudaError_t rms_norm(const RmsNorm& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    with_packs<T>(call.width, [&](auto packs, int threads) {
      launch(forward<T, packs.value>, call.rows, threads, stream, call);
    });
  });
}

cudaError_t rms_norm_backward(const RmsNormBackward& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    with_packs<T>(call.width, [&](auto packs, int threads) {
      launch(backward<T, packs.value>, call.parts, threads, stream, call);
    });
  });
}

}  // namespace gimlet
