#ifdef GIMLET_CUDNN
#include "attention_graph.h"

#include <cudnn_frontend.h>

#include <stdexcept>

namespace gimlet::cudnn {

namespace fe = cudnn_frontend;
namespace graph = cudnn_frontend::graph;
using Tensor = std::shared_ptr<graph::Tensor_attributes>;

namespace {

// The tensors of one graph by their roles.
struct Builder {
  const Attention& attention;
  graph::Graph& graph;

  bool has_bias() const { return attention.strides.count(kBias); }

  int64_t length(Role role) const {
    const bool is_of_keys =
        role == kKey || role == kValue || role == kKeyGradient || role == kValueGradient;
    return is_of_keys ? attention.keys : attention.queries;
  }

  std::vector<int64_t> strides(Role role) const {
    const Strides& found = attention.strides.at(role);
    return {found.batch, found.head, found.position, 1};
  }

  Tensor numbers(int64_t uid, std::vector<int64_t> dim, fe::DataType_t type) {
    std::vector<int64_t> stride(dim.size(), 1);
    for (size_t axis = dim.size() - 1; axis > 0; --axis) stride[axis - 1] = stride[axis] * dim[axis];
    return graph.tensor(graph::Tensor_attributes().set_uid(uid).set_dim(dim).set_stride(stride).set_data_type(type));
  }

  Tensor starts(Role role) { return numbers(starts_of(role), {attention.batch + 1, 1, 1, 1}, fe::DataType_t::INT32); }

  Tensor lengths(Role role) { return numbers(role, {attention.batch, 1, 1, 1}, fe::DataType_t::INT32); }

  // Queries, keys, values and results of their shape.
  void describe_heads(Role role, graph::Tensor_attributes& tensor) {
    tensor.set_uid(role)
        .set_dim({attention.batch, attention.heads, length(role), attention.width})
        .set_stride(strides(role));
    if (attention.is_ragged) tensor.set_ragged_offset(starts(role));
  }

  void describe_bias(Role role, graph::Tensor_attributes& tensor) {
    tensor.set_uid(role)
        .set_dim({1, attention.heads, attention.queries, attention.keys})
        .set_stride(strides(kBias));
  }

  Tensor heads(Role role) {
    graph::Tensor_attributes tensor;
    describe_heads(role, tensor);
    return graph.tensor(tensor);
  }

  Tensor bias(Role role) {
    graph::Tensor_attributes tensor;
    describe_bias(role, tensor);
    return graph.tensor(tensor);
  }

  Tensor normalizers() {
    return numbers(kNormalizers, {attention.batch, attention.heads, attention.queries, 1}, fe::DataType_t::FLOAT);
  }

  // What both passes are told.
  template <typename Options>
  Options options(Options options) {
    options.set_attn_scale(1.0f);
    if (attention.is_causal) {
      options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    }
    if (has_bias()) options.set_bias(bias(kBias));
    if (attention.is_ragged) {
      options.set_padding_mask(true).set_seq_len_q(lengths(kQueryLengths)).set_seq_len_kv(lengths(kKeyLengths));
    }
    return options;
  }

  void output(Role role, const Tensor& tensor) {
    describe_heads(role, *tensor);
    tensor->set_output(true);
  }

  void forward() {
    auto told = options(graph::SDPA_attributes().set_name("attention").set_generate_stats(attention.keeps_normalizers));
    auto [out, stats] = graph.sdpa(heads(kQuery), heads(kKey), heads(kValue), told);
    output(kOut, out);
    if (attention.keeps_normalizers) {
      stats->set_uid(kNormalizers).set_output(true).set_data_type(fe::DataType_t::FLOAT);
      stats->set_dim({attention.batch, attention.heads, attention.queries, 1})
          .set_stride({attention.heads * attention.queries, attention.queries, 1, 1});
    }
  }

  void backward() {
    auto told = options(graph::SDPA_backward_attributes().set_name("attention_backward"));
    told.set_deterministic_algorithm(attention.is_deterministic);
    // Memory for sums then follows the tokens, not the longest row.
    if (attention.is_ragged) {
      told.set_max_total_seq_len_q(attention.all_queries).set_max_total_seq_len_kv(attention.all_keys);
    }
    if (attention.bias_needs_gradient) told.set_dbias(bias(kBiasGradient));
    auto [query, key, value] = graph.sdpa_backward(heads(kQuery), heads(kKey), heads(kValue), heads(kOut),
                                                   heads(kOutGradient), normalizers(), told);
    output(kQueryGradient, query);
    output(kKeyGradient, key);
    output(kValueGradient, value);
  }
};

}  // namespace

std::shared_ptr<graph::Graph> attention_graph(const Attention& attention) {
  auto made = std::make_shared<graph::Graph>();
  made->set_io_data_type(attention.is_half ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  Builder builder{attention, *made};
  attention.is_backward ? builder.backward() : builder.forward();
  auto status = made->validate();
  if (status.is_bad()) throw std::runtime_error(status.get_message());
  return made;
}

std::string planned(graph::Graph& graph, cudnnHandle_t handle) {
  auto status = graph.build_operation_graph(handle);
  if (status.is_good()) status = graph.create_execution_plans({fe::HeurMode_t::A});
  if (status.is_good()) status = graph.check_support();
  if (status.is_good()) status = graph.build_plans();
  return status.is_good() ? "" : status.get_message();
}

}  // namespace gimlet::cudnn
#endif
