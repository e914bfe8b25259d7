// Attention with a learned bias on the CPU, forward and backward, for `src/nn/fused/attention/cpu.rs`.
//
// libtorch's fused kernel takes no bias that needs a gradient; without it every layer writes its scores,
// weights and their gradients, [batch, heads, queries, keys] each, to memory and reads them back. Here a
// block of scores is made, used and dropped while it lies in a core's cache; the backward pass
// computes it again from each query's largest score and its normalizer (Dao et al. 2022,
// arXiv:2205.14135). Both are kept separately: a query without allowed keys has -1e10 for the
// first, in which the second's logarithm vanishes.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "attention_head.h"
#include "guarded.h"
#include "parallel.h"
#include "products.h"

using namespace attention;

#define GIMLET_ATTENTION(T)                                                                                \
  GIMLET_CLONES void gimlet_attend(const Head<T>& head, const Results<T>& results, Room<T>& room) {         \
    attend(head, results, room);                                                                            \
  }                                                                                                         \
  GIMLET_CLONES void gimlet_attend_back(const Head<T>& head, const Gradients<T>& gradients, Room<T>& room) { \
    attend_back(head, gradients, room);                                                                     \
  }
GIMLET_ATTENTION(float)
GIMLET_ATTENTION(c10::BFloat16)

namespace {

// The format in which an attention of float32 or bfloat16 is computed: bfloat16 is widened where its products are no
// faster.
at::ScalarType attention_format(at::ScalarType of) {
  TORCH_CHECK(of == at::kFloat || of == at::kBFloat16, "attention is float32 or bfloat16, not ", of);
  return small_products_in_bfloat16() ? of : at::kFloat;
}

// The operands of one attention. All float32 or all bfloat16.
struct Operands {
  at::Tensor query;     // [batch, heads, queries, width]
  at::Tensor key;       // [batch, heads, keys, width]
  at::Tensor value;     // [batch, heads, keys, width]
  at::Tensor factors;   // of the values, float32 [batch, heads, keys, 1], or undefined
  at::Tensor position;  // [1, heads, queries, keys], or undefined
  at::Tensor allowed;   // bool [batch, 1, queries or 1, keys], or undefined

  int64_t batch() const { return query.size(0); }
  int64_t heads() const { return query.size(1); }
  Extents extents() const { return {query.size(2), key.size(2), query.size(3)}; }
};

// The head of a tensor [batch, heads, rows, width]; of one row of the batch if there is only that.
template <typename T>
Rows<T> rows_of(const at::Tensor& tensor, int64_t b, int64_t h) {
  if (!tensor.defined()) return {nullptr, 0, 0, 0};
  TORCH_CHECK(tensor.stride(3) == 1 || tensor.size(3) == 1, "rows of an attention's operand are not dense");
  auto* const data = static_cast<T*>(const_cast<void*>(tensor.const_data_ptr()));
  const auto stride = [&](int64_t axis) { return tensor.size(axis) == 1 ? 0 : tensor.stride(axis); };
  return {data + b * stride(0) + h * stride(1), stride(2), tensor.size(2), tensor.size(3)};
}

// For each row of the batch, its queries in blocks and the keys of each.
class Blocks {
 public:
  explicit Blocks(const Operands& in) : of_row_(in.batch()), forbids_(in.batch(), false) {
    for (int64_t b = 0; b < in.batch(); ++b) {
      const Extents of = in.extents();
      const auto allowed = rows_of<const bool>(in.allowed, b, 0);
      for (int64_t row = 0; row < allowed.count; ++row) {
        if (std::memchr(allowed.data + row * allowed.stride, false, of.keys) != nullptr) forbids_[b] = true;
      }
      for (int64_t first = 0; first < of.queries; first += of.block()) {
        Block block{first, std::min(of.block(), of.queries - first), 0, of.columns()};
        if (forbids_[b]) narrow(block, allowed, of);
        of_row_[b].push_back(block);
      }
    }
  }

  const std::vector<Block>& of_row(int64_t b) const { return of_row_[b]; }
  // Whether a row of the batch forbids any pair.
  bool forbids(int64_t b) const { return forbids_[b]; }

 private:
  std::vector<std::vector<Block>> of_row_;
  std::vector<bool> forbids_;

  // Leaves out panels of keys that none of the block's queries may see. A query without any key sees all.
  static void narrow(Block& block, const Rows<const bool>& allowed, const Extents& of) {
    int64_t least = of.keys, most = 0;
    for (int64_t query = block.first; query < block.first + block.count; ++query) {
      const bool* const keys = allowed.data + query * allowed.stride;
      const auto found = std::find(keys, keys + of.keys, true) - keys;
      if (found == of.keys) return;
      least = std::min<int64_t>(least, found);
      for (int64_t key = of.keys; key > most; --key) {
        if (keys[key - 1]) most = key;
      }
      if (allowed.stride == 0) break;
    }
    block.from = least / kPanel * kPanel;
    block.columns = std::min(rounded_up(most, kPanel), of.columns()) - block.from;
  }
};

template <typename T>
Head<T> head_of(const Operands& in, const Blocks& blocks, int64_t b, int64_t h) {
  const auto factors = rows_of<const float>(in.factors, b, h);
  const auto allowed = blocks.forbids(b) ? rows_of<const bool>(in.allowed, b, 0) : Rows<const bool>{};
  return {in.extents(), blocks.of_row(b), rows_of<const T>(in.query, b, h), rows_of<const T>(in.key, b, h),
          rows_of<const T>(in.value, b, h), factors.data, rows_of<const T>(in.position, 0, h), allowed};
}

// Calls `body(chunk, b, h)` for every head of every row on all threads; a thread's chunk is a run
// of rows, one head after the other.
template <typename Body>
void for_each_head(const Operands& in, const Body& body) {
  share_out(in.batch() * in.heads(), /*grain=*/1, [&](int64_t first, int64_t task) {
    body(first, task % in.batch(), task / in.batch());
    at::native::cpublas::brgemm_release();
  });
}

// `softmax` holds each query's largest score, and its sum of exponentials. [2, batch, heads, queries, 1]
template <typename T>
void forward(const Operands& in, const at::Tensor& out, const at::Tensor& softmax) {
  const Blocks blocks(in);
  const at::Tensor largest = softmax[0], totals = softmax[1];
  for_each_head(in, [&](int64_t, int64_t b, int64_t h) {
    thread_local Room<T> room;
    gimlet_attend(head_of<T>(in, blocks, b, h),
                  {rows_of<T>(out, b, h), rows_of<float>(largest, b, h).data, rows_of<float>(totals, b, h).data}, room);
  });
}

// The gradients, each in the shape of its tensor; that of the position undefined where none is asked for.
struct Written {
  const at::Tensor &query, &key, &value, &position;
};

template <typename T>
void backward(const Operands& in, const at::Tensor& softmax, const at::Tensor& out_gradient, const Written& written) {
  const Blocks blocks(in);
  const at::Tensor largest = softmax[0], totals = softmax[1];
  // Sums over the batch, one for each chunk and head: added up in their order, independently of the
  // threads.
  std::map<std::pair<int64_t, int64_t>, at::Tensor> sums;
  std::mutex mutex;
  const auto sum_of = [&](int64_t chunk, int64_t h) -> float* {
    if (!written.position.defined()) return nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    auto& sum = sums[{h, chunk}];
    if (!sum.defined()) sum = at::zeros({in.extents().queries, in.extents().keys}, at::kFloat);
    return sum.mutable_data_ptr<float>();
  };
  for_each_head(in, [&](int64_t chunk, int64_t b, int64_t h) {
    thread_local Room<T> room;
    const Gradients<T> gradients{rows_of<const T>(out_gradient, b, h), rows_of<const float>(largest, b, h).data,
                                 rows_of<const float>(totals, b, h).data, rows_of<T>(written.query, b, h),
                                 rows_of<T>(written.key, b, h), rows_of<T>(written.value, b, h), sum_of(chunk, h)};
    gimlet_attend_back(head_of<T>(in, blocks, b, h), gradients, room);
  });
  at::Tensor total;
  for (auto sum = sums.begin(); sum != sums.end(); ++sum) {
    const int64_t h = sum->first.first;
    total = total.defined() ? total.add_(sum->second) : sum->second;
    const auto next = std::next(sum);
    if (next != sums.end() && next->first.first == h) continue;
    written.position.select(0, 0).select(0, h).copy_(total);
    total = at::Tensor();
  }
}

}  // namespace

extern "C" {

struct GimletAttention {
  const at::Tensor *query, *key, *value, *factors, *position, *allowed;
};

}  // extern "C"

namespace {

// A tensor with dense rows in that format, if it is defined.
at::Tensor operand(const at::Tensor& tensor, at::ScalarType kind) {
  if (!tensor.defined()) return tensor;
  const auto converted = tensor.to(kind);
  return converted.stride(-1) == 1 ? converted : converted.contiguous();
}

Operands operands(const GimletAttention& in, at::ScalarType kind) {
  const auto factors = operand(*in.factors, at::kFloat);
  return {operand(*in.query, kind), operand(*in.key, kind), operand(*in.value, kind),
          factors.defined() ? factors.contiguous() : factors, operand(*in.position, kind), operand(*in.allowed, at::kBool)};
}

// A tensor to be written, by way of another where it has another format.
struct Output {
  const at::Tensor& tensor;
  at::Tensor computed;

  Output(const at::Tensor& tensor, at::ScalarType kind)
      : tensor(tensor),
        computed(!tensor.defined() || tensor.scalar_type() == kind ? tensor : at::empty_like(tensor, kind)) {}
  void write() const {
    if (!computed.is_same(tensor)) tensor.copy_(computed);
  }
};

}  // namespace

extern "C" {

// Writes `out` [batch, heads, queries, width] and `softmax`, float32 [2, batch, heads, queries, 1].
char* gimlet_attention_forward(GimletAttention in, const at::Tensor* out,
                               const at::Tensor* softmax) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto kind = attention_format(in.query->scalar_type());
    const Output result(*out, kind);
    const auto forward_in = kind == at::kFloat ? forward<float> : forward<c10::BFloat16>;
    forward_in(operands(in, kind), result.computed, *softmax);
    result.write();
  });
}

// Writes the gradients that are defined, each in the shape of its tensor.
char* gimlet_attention_backward(GimletAttention in, const at::Tensor* softmax,
                                const at::Tensor* out_gradient, GimletAttention gradients) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto kind = attention_format(in.query->scalar_type());
    const Output query(*gradients.query, kind), key(*gradients.key, kind), value(*gradients.value, kind),
        position(*gradients.position, kind);
    const auto backward_in = kind == at::kFloat ? backward<float> : backward<c10::BFloat16>;
    backward_in(operands(in, kind), *softmax, operand(*out_gradient, kind),
                {query.computed, key.computed, value.computed, position.computed});
    for (const Output* output : {&query, &key, &value, &position}) output->write();
  });
}

}  // extern "C"
