// An attention as a graph of cuDNN's, forward or backward: built without libtorch, so that a machine without a GPU can
// ask cuDNN for its engine (`tests/numerics/cudnn`). Run by `bridge/cudnn_attention.cpp`.
//
// On Hopper cuDNN's kernels add a bias that all rows share, return its gradient summed over them, and take ragged rows:
// sequences of any lengths, one after the other in memory.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

struct cudnnContext;

namespace cudnn_frontend::graph {
class Graph;
}

namespace gimlet::cudnn {

// The tensors of a graph. The starts of the ragged ones, int32 [batch + 1, 1, 1, 1] in numbers from the tensor's first
// one, are at `starts_of`.
enum Role : int64_t {
  kQuery = 1, kKey, kValue,
  kBias,                         // [1, heads, queries, keys]
  kOut,
  kNormalizers,                  // float32 [batch, heads, queries, 1], dense
  kOutGradient, kQueryGradient, kKeyGradient, kValueGradient, kBiasGradient,
  kQueryLengths, kKeyLengths,    // int32 [batch, 1, 1, 1], of ragged rows
};
constexpr int64_t starts_of(Role role) { return 100 + role; }

// Numbers between neighbours along an axis, of [batch, heads, length, width]. Those of a ragged batch do not matter.
struct Strides {
  int64_t batch, head, position;
  bool operator<(const Strides& other) const {
    return std::tie(batch, head, position) < std::tie(other.batch, other.head, other.position);
  }
};

// What distinguishes graphs. Numbers of a head lie side by side, and scores are not divided.
struct Attention {
  bool is_backward = false;
  bool keeps_normalizers = false;  // for a backward pass
  bool is_half = false;            // float16 instead of bfloat16
  bool is_causal = false;          // keys after the query, both counted from the start of their row, are not seen
  bool is_ragged = false;
  bool is_deterministic = false;
  bool bias_needs_gradient = false;
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0;
  int64_t all_queries = 0, all_keys = 0;  // of all rows, if they are ragged
  std::map<Role, Strides> strides;  // of a bias, there are strides only if there is one

  auto members() const {
    return std::tie(is_backward, keeps_normalizers, is_half, is_causal, is_ragged, is_deterministic, bias_needs_gradient,
                    batch, heads, queries, keys, width, all_queries, all_keys, strides);
  }
  bool operator<(const Attention& other) const { return members() < other.members(); }
};

// The graph, not yet planned. Throws std::runtime_error with cuDNN's reason where it is none of cuDNN's.
std::shared_ptr<cudnn_frontend::graph::Graph> attention_graph(const Attention& attention);

// Plans a graph for the device of `handle`, or without one for that which the graph describes. Returns cuDNN's reason where it
// has no engine, else nothing.
std::string planned(cudnn_frontend::graph::Graph& graph, cudnnContext* handle);

}  // namespace gimlet::cudnn
