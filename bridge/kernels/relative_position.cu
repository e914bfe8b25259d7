// Sums over diagonals, for the gradient of a bias that depends on `key - query` alone.
//
// A thread owns one distance, so neighbours read neighbouring keys; the queries are divided among
// blocks, which write partial sums in a fixed order.

#include "common.cuh"

namespace gimlet {
namespace {

constexpr int kThreads = 128;
constexpr int kChunk = 64;  // queries that a block takes at a time

template <typename T>
__global__ void diagonals(DiagonalSums call) {
  const int distances = call.queries + call.keys - 1;
  const int distance = blockIdx.x * kThreads + threadIdx.x, head = blockIdx.y, part = blockIdx.z;
  if (distance >= distances) return;
  const int shift = distance - (call.queries - 1);  // key - query
  const int first = max(0, -shift), end = min(call.queries, call.keys - shift);
  const int chunks = (call.queries + kChunk - 1) / kChunk;
  float sum = 0;
  for (int64_t unit = part; unit < call.batch * chunks; unit += call.parts) {
    const int64_t matrix = (unit / chunks * call.heads + head) * call.queries;
    const T* values = static_cast<const T*>(call.values) + matrix * call.keys;
    const int start = static_cast<int>(unit % chunks) * kChunk;
    const int stop = min(end, start + kChunk);
#pragma unroll 4
    for (int query = max(first, start); query < stop; ++query) {
      sum += wide(values[static_cast<int64_t>(query) * call.keys + query + shift]);
    }
  }
  call.sums[(static_cast<int64_t>(part) * call.heads + head) * distances + distance] = sum;
}

}  // namespace

cudaError_t diagonal_sums(const DiagonalSums& call, cudaStream_t stream) {
  return with_type(call.dtype, [&](auto type) {
    using T = decltype(type);
    const int distances = call.queries + call.keys - 1;
    const dim3 grid((distances + kThreads - 1) / kThreads, call.heads, call.parts);
    launch(diagonals<T>, grid, kThreads, stream, call);
  });
}

}  // namespace gimlet
