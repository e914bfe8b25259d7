// Attention with a learned bias on the CPU, forward and backward, for `src/nn/fused/attention/cpu.rs`.
//
// libtorch's fused kernel takes no bias that needs a gradient; without it every layer writes its scores,
// weights and their gradients, [batch, heads, queries, keys] each, to memory and reads them back. Here a
// block of scores is made, used and dropped while it lies in a core's cache; the backward pass
// computes it again from each query's largest score and its normalizer (Dao et al. 2022,
// arXiv:2205.14135). Both are kept separately: a query without allowed keys has -1e10 for the
// first, in which the second's logarithm vanishes.

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "guarded.h"
#include "parallel.h"

namespace {

// Elements of a block of scores: with the bias, the gradient and the operands, 3 MB in float32.
constexpr int64_t kBlock = 1 << 18;
// The score of a forbidden pair: its weight is zero, unless all pairs of a query are forbidden.
constexpr double kForbidden = -1e10;

// The operands of one attention. All float32 or all bfloat16; a head is computed in float32.
struct Operands {
  const at::Tensor& query;     // [batch, heads, queries, width]
  const at::Tensor& key;       // [batch, heads, keys, width]
  const at::Tensor& value;     // [batch, heads, keys, width]
  const at::Tensor& factors;   // of the values, [batch, heads, keys, 1], or undefined
  const at::Tensor& position;  // [1, heads, queries, keys], or undefined
  const at::Tensor& allowed;   // bool [batch, 1, queries or 1, keys], or undefined

  int64_t batch() const { return query.size(0); }
  int64_t heads() const { return query.size(1); }
  int64_t queries() const { return query.size(2); }
  int64_t keys() const { return key.size(2); }
  int64_t block() const { return std::max<int64_t>(16, kBlock / keys()); }
};

at::Tensor part(const at::Tensor& tensor, int64_t first, int64_t second) {
  return tensor.select(0, first).select(0, second);
}

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

// For each row of the batch that forbids any pair: [queries or 1, keys], true where forbidden.
std::vector<at::Tensor> forbidden_pairs(const Operands& in) {
  std::vector<at::Tensor> rows(in.batch());
  if (!in.allowed.defined()) return rows;
  for (int64_t b = 0; b < in.batch(); ++b) {
    const auto row = part(in.allowed, b, 0);
    if (!row.all().item<bool>()) rows[b] = row.logical_not();
  }
  return rows;
}

// One head of one row of the batch, in float32.
struct Head {
  at::Tensor query, key, value;
  at::Tensor position;   // [queries, keys], or undefined
  at::Tensor forbidden;  // [queries or 1, keys], or undefined
  at::Tensor factors;    // [keys, 1], or undefined

  Head(const Operands& in, const at::Tensor& forbidden, int64_t b, int64_t h)
      : query(wide(part(in.query, b, h))),
        key(wide(part(in.key, b, h))),
        value(wide(part(in.value, b, h))),
        position(in.position.defined() ? wide(part(in.position, 0, h)) : at::Tensor()),
        forbidden(forbidden) {
    if (!in.factors.defined()) return;
    factors = wide(part(in.factors, b, h));
    value = value * factors;
  }

  // Scores of some queries. [count, keys]
  at::Tensor scores(int64_t first, int64_t count) const {
    auto scores = at::mm(query.narrow(0, first, count), key.t());
    if (position.defined()) scores.add_(position.narrow(0, first, count));
    if (forbidden.defined()) {
      const bool shared = forbidden.size(0) == 1;
      scores.masked_fill_(shared ? forbidden : forbidden.narrow(0, first, count), kForbidden);
    }
    return scores;
  }
};

// Calls `body(chunk, b, h)` for every head of every row on all threads; a thread's chunk is a run
// of rows, one head after the other.
template <typename Body>
void for_each_head(const Operands& in, const Body& body) {
  share_out(in.batch() * in.heads(), /*grain=*/1, [&](int64_t first, int64_t task) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    body(first, task % in.batch(), task / in.batch());
  });
}

// `softmax` holds each query's largest score, and its sum of exponentials. [2, batch, heads, queries, 1]
void forward(const Operands& in, const at::Tensor& out, const at::Tensor& softmax) {
  const auto forbidden = forbidden_pairs(in);
  for_each_head(in, [&](int64_t, int64_t b, int64_t h) {
    const Head head(in, forbidden[b], b, h);
    for (int64_t first = 0; first < in.queries(); first += in.block()) {
      const int64_t count = std::min(in.block(), in.queries() - first);
      auto weights = head.scores(first, count);
      const auto largest = weights.amax(-1, true);
      weights.sub_(largest).exp_();
      const auto normalizer = weights.sum(-1, true);
      part(out, b, h).narrow(0, first, count).copy_(at::mm(weights, head.value).div_(normalizer));
      part(softmax[0], b, h).narrow(0, first, count).copy_(largest);
      part(softmax[1], b, h).narrow(0, first, count).copy_(normalizer);
    }
  });
}

struct Gradients {
  const at::Tensor& query;
  const at::Tensor& key;
  const at::Tensor& value;
  const at::Tensor& position;  // [1, heads, queries, keys], or undefined where none is asked for
};

void backward(const Operands& in, const at::Tensor& softmax, const at::Tensor& out_gradient,
              const Gradients& gradients) {
  const auto forbidden = forbidden_pairs(in);
  // Sums over the batch, one for each chunk and head: added up in their order, independently of the
  // threads.
  std::map<std::pair<int64_t, int64_t>, at::Tensor> sums;
  std::mutex mutex;
  const auto sum_of = [&](int64_t chunk, int64_t h) {
    std::lock_guard<std::mutex> lock(mutex);
    auto& sum = sums[{h, chunk}];
    if (!sum.defined()) sum = at::zeros({in.queries(), in.keys()}, at::kFloat);
    return sum;
  };
  for_each_head(in, [&](int64_t chunk, int64_t b, int64_t h) {
    const Head head(in, forbidden[b], b, h);
    const auto gradient_head = wide(part(out_gradient, b, h));
    auto key_gradient = at::zeros_like(head.key), value_gradient = at::zeros_like(head.value);
    at::Tensor position_gradient;
    if (gradients.position.defined()) position_gradient = sum_of(chunk, h);
    for (int64_t first = 0; first < in.queries(); first += in.block()) {
      const int64_t count = std::min(in.block(), in.queries() - first);
      const auto rows = [&](const at::Tensor& tensor) { return tensor.narrow(0, first, count); };
      // Divided by the normalizer, so that the weights need not be divided by it.
      const auto normalizer = rows(part(softmax[1], b, h));
      const auto gradient = rows(gradient_head) / normalizer;
      auto weights = head.scores(first, count).sub_(rows(part(softmax[0], b, h))).exp_();
      value_gradient.addmm_(weights.t(), gradient);
      auto scores_gradient = at::mm(gradient, head.value.t());
      // Not from the output, as elsewhere: this mean has the same rounding as the numbers from
      // which it is subtracted.
      const auto mean = (scores_gradient * weights).sum(-1, true).div_(normalizer);
      scores_gradient.sub_(mean).mul_(weights);
      if (position_gradient.defined()) rows(position_gradient).add_(scores_gradient);
      rows(part(gradients.query, b, h)).copy_(at::mm(scores_gradient, head.key));
      key_gradient.addmm_(scores_gradient.t(), rows(head.query));
    }
    if (head.factors.defined()) value_gradient.mul_(head.factors);
    part(gradients.key, b, h).copy_(key_gradient);
    part(gradients.value, b, h).copy_(value_gradient);
  });
  at::Tensor total;
  for (auto sum = sums.begin(); sum != sums.end(); ++sum) {
    const auto& [h, chunk] = sum->first;
    total = total.defined() ? total.add_(sum->second) : sum->second;
    const auto next = std::next(sum);
    if (next != sums.end() && next->first.first == h) continue;
    part(gradients.position, 0, h).copy_(total);
    total = at::Tensor();
  }
}

}  // namespace

extern "C" {

struct GimletAttention {
  const at::Tensor *query, *key, *value, *factors, *position, *allowed;
};

// Writes `out` [batch, heads, queries, width] and `softmax`, float32 [2, batch, heads, queries, 1].
char* gimlet_attention_forward(GimletAttention in, const at::Tensor* out,
                               const at::Tensor* softmax) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    forward({*in.query, *in.key, *in.value, *in.factors, *in.position, *in.allowed}, *out, *softmax);
  });
}

// Writes the gradients that are defined, each in the shape of its tensor.
char* gimlet_attention_backward(GimletAttention in, const at::Tensor* softmax,
                                const at::Tensor* out_gradient, GimletAttention gradients) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    backward({*in.query, *in.key, *in.value, *in.factors, *in.position, *in.allowed}, *softmax, *out_gradient,
             {*gradients.query, *gradients.key, *gradients.value, *gradients.position});
  });
}

}  // extern "C"
