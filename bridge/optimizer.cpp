// libtorch's optimizers over lists of tensors, for `src/nn/bridge.rs`.

#include <ATen/ops/_fused_adamw.h>

#include <vector>

#include "guarded.h"

extern "C" {

struct GimletAdamW {
  double b1;
  double b2;
  double eps;
  double weight_decay;
};

// Update number `number`, counted from 1, of `count` parameters with their gradients and both moments, all float32;
// number and learning rate are float32 scalars on the tensors' device. Null, or a message to be freed with `free`.
char* gimlet_fused_adamw(const GimletAdamW* factors, const at::Tensor* const* params,
                         const at::Tensor* const* grads, const at::Tensor* const* means,
                         const at::Tensor* const* squares, size_t count,
                         const at::Tensor* learning_rate, const at::Tensor* number) noexcept {
  return guarded([&] {
    const auto list = [count](const at::Tensor* const* tensors) {
      std::vector<at::Tensor> out;
      for (size_t i = 0; i < count; ++i) out.push_back(*tensors[i]);
      return out;
    };
    at::_fused_adamw_(list(params), list(grads), list(means), list(squares), {},
                      std::vector<at::Tensor>(count, *number), *learning_rate, factors->b1,
                      factors->b2, factors->weight_decay, factors->eps, /*amsgrad=*/false,
                      /*maximize=*/false);
    // It returns nothing, and such operations do not count as changes of what they write.
    for (const auto* tensors : {params, means, squares}) {
      for (size_t i = 0; i < count; ++i) tensors[i]->unsafeGetTensorImpl()->bump_version();
    }
  });
}

}  // extern "C"
