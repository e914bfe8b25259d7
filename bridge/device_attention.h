// What attention kernels for CUDA devices are given and return, as `src/nn/fused/attention/device.rs` has it.
//
// Queries, keys, values and results are [batch, length, heads, width]; numbers along a head lie side by side.

#pragma once

#include <ATen/core/Tensor.h>

extern "C" {

// The inputs of an attention.
struct GimletOperands {
  const at::Tensor *query, *key, *value;
  // [1, heads, queries, keys] for cuDNN; else [batch, heads, queries, keys], rows 16 bytes apart; or undefined
  const at::Tensor* bias;
  // int32 [runs + 1], the starts of runs of queries and of keys in [length, heads, width]; or
  // undefined, and everything is [batch, length, heads, width].
  const at::Tensor *query_starts, *key_starts;
  int64_t longest_query_run, longest_key_run;
  // For cuDNN, of the runs that have queries, int32 [runs] and [runs + 1]: the lengths, and the starts in numbers from the first
  // one of queries, keys, values, results of the queries' shape, and such results of the keys'. Undefined without runs.
  const at::Tensor* lengths[2];
  const at::Tensor* offsets[5];
  // Whether a key after the query, both counted from the start of their run, is not seen. Only cuDNN can do that.
  bool is_causal;
  // Whether gradients of queries, keys and values, of equal length, should be parts of one tensor,
  // [batch, length, 3, heads, width], if a kernel can do that.
  bool gradients_joined;
};

// The results of a forward pass: its output, of the queries' shape, and the inputs of the backward
// pass.
struct GimletKept {
  at::Tensor *out, *normalizers, *random_seed, *random_offset;
};

// Undefined tensors, to be set; that of the bias stays undefined unless its gradient is needed.
struct GimletGradients {
  at::Tensor *query, *key, *value, *bias;
};

}  // extern "C"
