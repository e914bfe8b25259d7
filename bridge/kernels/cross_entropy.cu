// Softmax cross entropy of rows of logits, with z-loss and label smoothing as in T5X `losses.py`.
//
// The first pass keeps a running maximum and the sum of exponentials relative to it (Milakov & Gimelshein
// 2018, arXiv:1805.02867); the second reads the logits, which the cache still holds, and writes the gradient.

#include <cfloat>

#include "common.cuh"

namespace gimlet {
namespace {

constexpr int kThreads = 512;

struct Running {
  // Finite, so that a token of -inf, which is impossible, adds exp(-inf).
  float largest = -FLT_MAX, exponentials = 0, logits = 0;
  int at = 0;  // column of the largest, the first of equal ones

  __device__ void add(float logit, int column) {
    logits += logit;
    if (logit > largest) {
      exponentials = exponentials * expf(largest - logit) + 1.f;
      largest = logit;
      at = column;
    } else {
      exponentials += expf(logit - largest);
    }
  }
};

// Sums that are known to all threads.
struct Row {
  float largest, normalizer, logits;
  int predicted;
};

__device__ Row combined(const Running& own) {
  Row row;
  row.largest = block_reduce(own.largest, -INFINITY, Max());
  row.normalizer = block_reduce(own.exponentials * expf(own.largest - row.largest), 0.f, Sum());
  row.logits = block_reduce(own.logits, 0.f, Sum());
  // The first column of the largest logit: columns below 2^24 are exact as floats.
  const float candidate = own.largest == row.largest ? static_cast<float>(own.at) : INFINITY;
  row.predicted = static_cast<int>(-block_reduce(-candidate, -INFINITY, Max()));
  return row;
}

// Of logits of type T, whose `gradients` of type G may lie over them.
template <typename T, typename G>
__global__ void rows(CrossEntropy call, G* gradients) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t index = blockIdx.x;
  const T* logits = static_cast<const T*>(call.logits) + index * call.vocab;
  Running own;
  for (int column = threadIdx.x * kSize; column < call.vocab; column += kThreads * kSize) {
    const Pack<T> pack = load(logits + column);
#pragma unroll
    for (int i = 0; i < kSize; ++i) own.add(wide(pack.values[i]), column + i);
  }
  const int target = static_cast<int>(call.tokens[index]);
  if (target < 0 || target >= call.vocab) __trap();
  const float target_logit = wide(logits[target]);
  const Row row = combined(own);  // every thread has read the target's logit behind its barriers
  const float log_normalizer = logf(row.normalizer), log_z = log_normalizer + row.largest;
  const float coefficient = call.coefficients[index];
  if (threadIdx.x == 0) {
    float entropy = (log_z - target_logit) * (call.confidence - call.low);
    if (call.low > 0) entropy += (log_z * call.vocab - row.logits) * call.low;
    const float z_loss = log_z * log_z * call.z_factor;
    call.loss[index] = entropy + z_loss - call.least;
    call.z_loss[index] = z_loss;
    call.correct[index] = row.predicted == target ? 1.f : 0.f;
  }
  // (1 + 2 z log Z) softmax - target.
  const float factor = (1.f + 2.f * call.z_factor * log_z) / row.normalizer * coefficient;
  const float others = coefficient * call.low, of_target = coefficient * (call.low - call.confidence);
  for (int column = threadIdx.x * kSize; column < call.vocab; column += kThreads * kSize) {
    const Pack<T> pack = load(logits + column);
    Pack<G, kSize> written;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      float gradient = expf(wide(pack.values[i]) - row.largest) * factor - others;
      if (column + i == target) gradient += of_target;
      written.values[i] = narrow<G>(gradient);
    }
    store(gradients + index * call.vocab + column, written);
  }
}

}  // namespace

cudaError_t cross_entropy(const CrossEntropy& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    if (call.narrow_gradient == nullptr) {
      launch(rows<T, T>, call.rows, kThreads, stream, call, static_cast<T*>(call.logits));
    } else {
      launch(rows<T, __nv_bfloat16>, call.rows, kThreads, stream, call, static_cast<__nv_bfloat16*>(call.narrow_gradient));
    }
  });
}

}  // namespace gimlet
