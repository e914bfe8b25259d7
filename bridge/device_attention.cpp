// libtorch's attention kernels for CUDA devices, for `src/nn/fused/attention/device.rs`: those that take a bias
// and give its gradient, and those that take runs of keys instead. Neither divides scores or drops weights.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <optional>

#include "device_attention.h"
#include "guarded.h"

namespace {

constexpr double kScale = 1.0, kNoDropout = 0.0;
constexpr int64_t kNoMask = 0;
constexpr bool kNotCausal = false;

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  if (!tensor.defined()) return std::nullopt;
  return tensor;
}

}  // namespace

extern "C" {

char* gimlet_efficient_attention(const GimletOperands* in, const GimletKept* kept) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [out, normalizers, seed, offset, queries, keys] = at::_efficient_attention_forward(
        *in->query, *in->key, *in->value, if_defined(*in->bias), std::nullopt, std::nullopt, std::nullopt,
        std::nullopt, kNoDropout, kNoMask, /*compute_log_sumexp=*/true, kScale);
    *kept->out = out;
    *kept->normalizers = normalizers;
    *kept->random_seed = seed;
    *kept->random_offset = offset;
  });
}

char* gimlet_efficient_attention_backward(const GimletOperands* in, const GimletKept* kept,
                                          const at::Tensor* out_gradient, bool bias_needs,
                                          const GimletGradients* gradients) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [query, key, value, bias] = at::_efficient_attention_backward(
        *out_gradient, *in->query, *in->key, *in->value, if_defined(*in->bias), *kept->out, std::nullopt,
        std::nullopt, in->query->size(1), in->key->size(1), *kept->normalizers, kNoDropout,
        *kept->random_seed, *kept->random_offset, kNoMask, bias_needs, kScale,
        /*num_splits_key=*/std::nullopt, /*window_size=*/std::nullopt, in->gradients_joined);
    *gradients->query = query;
    *gradients->key = key;
    *gradients->value = value;
    if (bias_needs) *gradients->bias = bias;
  });
}

char* gimlet_flash_attention(const GimletOperands* in, const GimletKept* kept) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [out, normalizers, seed, offset, weights] = at::_flash_attention_forward(
        *in->query, *in->key, *in->value, if_defined(*in->query_starts), if_defined(*in->key_starts),
        in->longest_query_run, in->longest_key_run, kNoDropout, kNotCausal, /*return_debug_mask=*/false,
        kScale);
    *kept->out = out;
    *kept->normalizers = normalizers;
    *kept->random_seed = seed;
    *kept->random_offset = offset;
  });
}

char* gimlet_flash_attention_backward(const GimletOperands* in, const GimletKept* kept,
                                      const at::Tensor* out_gradient,
                                      const GimletGradients* gradients) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    std::tie(*gradients->query, *gradients->key, *gradients->value) = at::_flash_attention_backward(
        *out_gradient, *in->query, *in->key, *in->value, *kept->out, *kept->normalizers,
        *in->query_starts, *in->key_starts, in->longest_query_run, in->longest_key_run, kNoDropout,
        kNotCausal, *kept->random_seed, *kept->random_offset, kScale);
  });
}

}  // extern "C"
