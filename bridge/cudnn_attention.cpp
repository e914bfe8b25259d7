// Attention by cuDNN's kernels for CUDA devices, for `src/nn/fused/attention/device.rs`: its graphs are planned once for
// each shape (`cudnn/attention_graph.h`) and kept.

#include "device_attention.h"
#include "guarded.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#ifdef GIMLET_CUDNN
#include "cudnn/attention_graph.h"

#include <ATen/cudnn/Handle.h>
#include <c10/cuda/CUDAGuard.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>

namespace cudnn_frontend {
// The library that libtorch has loaded.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace {

using namespace gimlet::cudnn;
namespace fe = cudnn_frontend;

// A graph that is ready to run, or the reason why there is none.
struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;
  std::string refusal;
};

// Plans by device and graph, and the turns of threads to run them.
struct Plans {
  std::mutex turn;
  std::map<std::pair<c10::DeviceIndex, Attention>, Plan> made;
  int predictions = 0;  // those without a backward pass
};

// Shapes of predictions that are planned: prompts may have any length, and each would wait for its plan.
constexpr int kMostPredictions = 32;

Plans& plans() {
  static Plans plans;
  return plans;
}

void load_cudnn() {
  static std::once_flag once;
  std::call_once(once, [] {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
    // A machine may have another version of CUDA's runtime too; ours is loaded.
    const std::string runtime = "libcudart.so." + std::to_string(CUDART_VERSION / 1000);
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), /*overwrite=*/0);
  });
  if (!fe::cudnn_dlhandle) throw std::runtime_error("libcudnn.so.9 is not there");
}

Plan make(const Attention& attention, cudnnHandle_t handle) {
  try {
    const auto graph = attention_graph(attention);
    const auto refusal = planned(*graph, handle);
    return {refusal.empty() ? graph : nullptr, refusal};
  } catch (const std::exception& error) {
    return {nullptr, error.what()};
  }
}

// The caller has its turn.
const Plan& plan(const Attention& attention, cudnnHandle_t handle, c10::DeviceIndex device) {
  auto& made = plans().made;
  const auto found = made.find({device, attention});
  if (found != made.end()) return found->second;
  if (!attention.is_backward && !attention.keeps_normalizers && ++plans().predictions > kMostPredictions) {
    static const Plan kTooMany{nullptr, "predictions have too many shapes"};
    return kTooMany;
  }
  return made.emplace(std::pair(device, attention), make(attention, handle)).first->second;
}

// The strides of [batch, length, heads, width], or of [length, heads, width] over ragged rows of up to `length`.
Strides strides_of(const at::Tensor& tensor, int64_t length) {
  const bool is_ragged = tensor.dim() == 3;
  const int64_t position = tensor.stride(is_ragged ? 0 : 1);
  return {is_ragged ? length * position : tensor.stride(0), tensor.stride(-2), position};
}

// The most memory that a backward pass with a bias may take beside its results: twice what libtorch's takes for the
// gradient of the bias of each row. cuDNN's follows the number of ragged rows and the longest of them.
int64_t most_workspace(const GimletOperands& in) {
  if (!in.query_starts->defined() || !in.bias->defined()) return std::numeric_limits<int64_t>::max();
  const at::Tensor& bias = *in.bias;
  return 2 * (in.query->size(0) / bias.size(2)) * bias.numel() * bias.element_size();
}

// What both passes are about.
Attention described(const GimletOperands& in) {
  const at::Tensor& query = *in.query;
  Attention found;
  found.is_half = query.scalar_type() == at::kHalf;
  found.is_causal = in.is_causal;
  found.is_ragged = in.query_starts->defined();
  found.heads = query.size(-2);
  found.width = query.size(-1);
  found.batch = query.size(0);
  found.queries = found.is_ragged ? in.longest_query_run : query.size(1);
  found.keys = found.is_ragged ? in.longest_key_run : in.key->size(1);
  if (found.is_ragged) {
    found.batch = in.lengths[0]->size(0);
    found.all_queries = query.size(0);
    found.all_keys = in.key->size(0);
  }
  if (in.bias->defined()) {
    found.queries = std::min(found.queries, in.bias->size(2));
    found.keys = std::min(found.keys, in.bias->size(3));
    found.strides[kBias] = {in.bias->stride(0), in.bias->stride(1), in.bias->stride(2)};
  }
  found.strides[kQuery] = strides_of(query, found.queries);
  found.strides[kKey] = strides_of(*in.key, found.keys);
  found.strides[kValue] = strides_of(*in.value, found.keys);
  // The results lie dense.
  const int64_t position = found.heads * found.width;
  found.strides[kOut] = {found.queries * position, found.width, position};
  return found;
}

Attention forward_of(const GimletOperands& in, bool keeps_normalizers) {
  Attention found = described(in);
  found.keeps_normalizers = keeps_normalizers;
  return found;
}

Attention backward_of(const GimletOperands& in, bool bias_needs) {
  Attention found = described(in);
  found.is_backward = true;
  found.is_deterministic = at::globalContext().deterministicAlgorithms();
  found.bias_needs_gradient = bias_needs;
  const int64_t parts = in.gradients_joined ? 3 : 1, position = parts * found.heads * found.width;
  found.strides[kOutGradient] = found.strides[kOut];
  found.strides[kQueryGradient] = {found.queries * position, found.width, position};
  found.strides[kKeyGradient] = found.strides[kValueGradient] = {found.keys * position, found.width, position};
  return found;
}

// The memory of a graph's tensors.
struct Memory {
  std::unordered_map<int64_t, void*> places;

  void add(Role role, const at::Tensor& tensor) {
    if (tensor.defined()) places[role] = tensor.data_ptr();
  }

  // Of tensors whose ragged rows start there.
  void add(Role role, const at::Tensor& tensor, const at::Tensor& starts) {
    add(role, tensor);
    if (starts.defined()) places[starts_of(role)] = starts.data_ptr();
  }

  void add_operands(const GimletOperands& in, const at::Tensor& out) {
    add(kQuery, *in.query, *in.offsets[0]);
    add(kKey, *in.key, *in.offsets[1]);
    add(kValue, *in.value, *in.offsets[2]);
    add(kOut, out, *in.offsets[3]);
    add(kBias, *in.bias);
    add(kQueryLengths, *in.lengths[0]);
    add(kKeyLengths, *in.lengths[1]);
  }
};

void run(const Attention& attention, Memory& memory, const at::Tensor& query) {
  // Profilers assign a kernel to the operation that launched it, so the call needs to be one.
  at::RecordFunction operation(at::RecordScope::FUNCTION);
  operation.before(attention.is_backward ? "cudnn_attention_backward" : "cudnn_attention");
  load_cudnn();
  const c10::cuda::CUDAGuard guard(query.device());
  const auto handle = at::native::getCudnnHandle();  // for the current stream
  const std::lock_guard<std::mutex> turn(plans().turn);
  const Plan& found = plan(attention, handle, query.device().index());
  TORCH_CHECK(found.graph, "cuDNN: ", found.refusal);
  int64_t bytes = 0;
  auto status = found.graph->get_workspace_size(bytes);
  if (status.is_good()) {
    const auto workspace = at::empty({std::max<int64_t>(bytes, 1)}, query.options().dtype(at::kByte));
    status = found.graph->execute(handle, memory.places, workspace.data_ptr());
  }
  TORCH_CHECK(status.is_good(), "cuDNN: ", status.get_message());
}

// `[..., 3, heads, width]` or three of `[..., heads, width]`. Keys of runs without queries get no gradient.
std::array<at::Tensor, 3> gradients_like(const GimletOperands& in) {
  const bool is_ragged = in.query_starts->defined();
  const auto made = [&](at::IntArrayRef size) {
    return is_ragged ? at::zeros(size, in.query->options()) : at::empty(size, in.query->options());
  };
  if (!in.gradients_joined) return {made(in.query->sizes()), made(in.key->sizes()), made(in.value->sizes())};
  auto size = in.query->sizes().vec();
  size.insert(size.end() - 2, 3);
  const auto joined = made(size);
  return {joined.select(-3, 0), joined.select(-3, 1), joined.select(-3, 2)};
}

}  // namespace
#endif

extern "C" {

// Null if cuDNN has kernels for this attention, forward and, if wanted, backward; or its reason, to be freed with `free`.
char* gimlet_cudnn_attention_refusal(const GimletOperands* in, bool with_backward, bool bias_needs) noexcept {
  return guarded([&] {
#ifdef GIMLET_CUDNN
    load_cudnn();
    const c10::cuda::CUDAGuard guard(in->query->device());
    const auto handle = at::native::getCudnnHandle();
    const std::lock_guard<std::mutex> turn(plans().turn);
    std::vector<Attention> wanted = {forward_of(*in, with_backward)};
    if (with_backward) wanted.push_back(backward_of(*in, bias_needs));
    for (const Attention& attention : wanted) {
      const Plan& found = plan(attention, handle, in->query->device().index());
      if (!found.graph) throw std::runtime_error(found.refusal);
      int64_t bytes = 0;
      auto status = found.graph->get_workspace_size(bytes);
      if (status.is_bad()) throw std::runtime_error(status.get_message());
      if (bytes > most_workspace(*in)) throw std::runtime_error("many short examples beside a long one");
    }
#else
    TORCH_CHECK(false, "this build has no cuDNN");
#endif
  });
}

// Keeps what a backward pass reads, if there will be one.
char* gimlet_cudnn_attention(const GimletOperands* in, bool with_backward, const GimletKept* kept) noexcept {
  return guarded([&] {
#ifdef GIMLET_CUDNN
    const auto attention = forward_of(*in, with_backward);
    const auto out = at::empty(in->query->sizes(), in->query->options());
    Memory memory;
    memory.add_operands(*in, out);
    if (with_backward) {
      // Beyond the end of a ragged row nothing is written, and something might be read.
      *kept->normalizers = at::zeros({attention.batch, attention.heads, attention.queries, 1},
                                     in->query->options().dtype(at::kFloat));
      memory.add(kNormalizers, *kept->normalizers);
    }
    run(attention, memory, *in->query);
    *kept->out = out;
#else
    TORCH_CHECK(false, "this build has no cuDNN");
#endif
  });
}

// The output's gradient lies dense.
char* gimlet_cudnn_attention_backward(const GimletOperands* in, const GimletKept* kept, const at::Tensor* out_gradient,
                                      bool bias_needs, const GimletGradients* gradients) noexcept {
  return guarded([&] {
#ifdef GIMLET_CUDNN
    const auto attention = backward_of(*in, bias_needs);
    const auto [query, key, value] = gradients_like(*in);
    const auto bias = bias_needs ? at::zeros_like(*in->bias) : at::Tensor();
    Memory memory;
    memory.add_operands(*in, *kept->out);
    memory.add(kNormalizers, *kept->normalizers);
    memory.add(kOutGradient, *out_gradient, *in->offsets[3]);
    // Joined gradients lie as the joined queries and keys do.
    memory.add(kQueryGradient, query, *in->offsets[in->gradients_joined ? 0 : 3]);
    for (const auto& [role, gradient] : {std::pair(kKeyGradient, key), std::pair(kValueGradient, value)}) {
      memory.add(role, gradient, *in->offsets[in->gradients_joined ? 1 : 4]);
    }
    memory.add(kBiasGradient, bias);
    run(attention, memory, *in->query);
    *gradients->query = query;
    *gradients->key = key;
    *gradients->value = value;
    if (bias_needs) *gradients->bias = bias;
#else
    TORCH_CHECK(false, "this build has no cuDNN");
#endif
  });
}

}  // extern "C"
