// Gated GELU (Shazeer 2020, arXiv:2002.05202) with the tanh approximation (Hendrycks & Gimpel 2016,
// arXiv:1606.08415). The backward pass computes the activation again instead of keeping it.

#include "common.cuh"

namespace gimlet {
namespace {

constexpr float kRootTwoOverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;

struct Gelu {
  float value, slope;
};

__device__ Gelu gelu(float x) {
  const float t = tanhf(kRootTwoOverPi * (x + kCubic * x * x * x));
  const float inner_slope = kRootTwoOverPi * (1.f + 3.f * kCubic * x * x);
  return {0.5f * x * (1.f + t), 0.5f * (1.f + t) + 0.5f * x * (1.f - t * t) * inner_slope};
}

// The position of a thread's next pack in the three matrices.
struct Place {
  int64_t dense, gate, linear;
};

template <typename T, typename Call>
__device__ Place place(const Call& call, int64_t index) {
  const int64_t packs = call.width / Pack<T>::kSize;
  const int64_t row = index / packs, column = index % packs * Pack<T>::kSize;
  return {row * call.width + column, row * call.gate_stride + column, row * call.linear_stride + column};
}

template <typename T>
__global__ void forward(GatedGelu call, int64_t packs) {
  for (int64_t index = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; index < packs;
       index += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const Place at = place<T>(call, index);
    const Pack<T> gate = load(static_cast<const T*>(call.gate) + at.gate);
    const Pack<T> linear = load(static_cast<const T*>(call.linear) + at.linear);
    Pack<T> product;
#pragma unroll
    for (int i = 0; i < Pack<T>::kSize; ++i) {
      const float activated = rounded<T>(gelu(wide(gate.values[i])).value);
      product.values[i] = narrow<T>(activated * wide(linear.values[i]));
    }
    store(static_cast<T*>(call.product) + at.dense, product);
  }
}

template <typename T>
__global__ void backward(GatedGeluBackward call, int64_t packs) {
  for (int64_t index = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; index < packs;
       index += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const Place at = place<T>(call, index);
    const Pack<T> gate = load(static_cast<const T*>(call.gate) + at.gate);
    const Pack<T> linear = load(static_cast<const T*>(call.linear) + at.linear);
    const Pack<T> passed = load(static_cast<const T*>(call.product_gradient) + at.dense);
    Pack<T> gate_gradient, linear_gradient;
#pragma unroll
    for (int i = 0; i < Pack<T>::kSize; ++i) {
      const Gelu activated = gelu(wide(gate.values[i]));
      const float gradient = wide(passed.values[i]);
      const float of_gelu = rounded<T>(gradient * wide(linear.values[i]));
      gate_gradient.values[i] = narrow<T>(of_gelu * activated.slope);
      linear_gradient.values[i] = narrow<T>(gradient * rounded<T>(activated.value));
    }
    store(static_cast<T*>(call.gate_gradient) + at.gate, gate_gradient);
    store(static_cast<T*>(call.linear_gradient) + at.linear, linear_gradient);
  }
}

constexpr int kThreads = 256;

// Enough blocks to fill the largest device a few times over.
int blocks(int64_t packs) {
  const int64_t needed = (packs + kThreads - 1) / kThreads;
  return static_cast<int>(needed < 4096 ? needed : 4096);
}

}  // namespace

cudaError_t gated_gelu(const GatedGelu& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t packs = call.rows * (call.width / Pack<T>::kSize);
    launch(forward<T>, blocks(packs), kThreads, stream, call, packs);
  });
}

cudaError_t gated_gelu_backward(const GatedGeluBackward& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t packs = call.rows * (call.width / Pack<T>::kSize);
    launch(backward<T>, blocks(packs), kThreads, stream, call, packs);
  });
}

}  // namespace gimlet
