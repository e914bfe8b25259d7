// Operations whose backward pass is written in Rust, and hooks on gradients, for `src/nn/autograd.rs`.
//
// A closure crosses the interface as a pointer, with a function that calls it and one that drops
// it. The failure of a closure is returned as a message and becomes an exception of libtorch's,
// which its engine carries to the thread that asked for gradients.

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guarded.h"

namespace {

using torch::autograd::variable_list;

struct GimletClosure {
  void* data;
  // Reads `count` tensors, writes `results`. Null, or a message to be freed with `free`.
  char* (*call)(void* data, const at::Tensor* const* tensors, size_t count, at::Tensor* const* results,
                size_t num_results);
  void (*drop)(void* data);
};

// Owns a closure.
class Closure {
 public:
  explicit Closure(GimletClosure raw) : raw_(raw) {}
  Closure(const Closure&) = delete;
  Closure& operator=(const Closure&) = delete;
  ~Closure() { drop(); }

  void drop() {
    if (raw_.data != nullptr) raw_.drop(std::exchange(raw_.data, nullptr));
  }

  variable_list operator()(const variable_list& tensors, size_t num_results) {
    TORCH_CHECK(raw_.data != nullptr, "an operation of Gimlet's went through its backward pass twice");
    std::vector<const at::Tensor*> read;
    for (const auto& tensor : tensors) read.push_back(&tensor);
    variable_list results(num_results);
    std::vector<at::Tensor*> written;
    for (auto& result : results) written.push_back(&result);
    char* message = raw_.call(raw_.data, read.data(), read.size(), written.data(), written.size());
    if (message != nullptr) {
      const std::string copy(message);
      std::free(message);
      TORCH_CHECK(false, copy);
    }
    return results;
  }

 private:
  GimletClosure raw_;
};

class Operation final : public torch::autograd::Node {
 public:
  Operation(std::unique_ptr<Closure> backward, torch::autograd::edge_list edges)
      : Node(std::move(edges)), backward_(std::move(backward)) {}

  // Maps gradients of the outputs to those of the inputs. Missing gradients of outputs count as zero.
  variable_list apply(variable_list&& gradients) override {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = input_metadata(i).zeros_like();
    }
    return (*backward_)(gradients, num_outputs());
  }

  void release_variables() override { backward_->drop(); }

 private:
  std::unique_ptr<Closure> backward_;
};

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(GimletClosure call) : call_(call) {}
  void operator()(const at::Tensor& leaf) override { call_({leaf}, 0); }

 private:
  Closure call_;
};

}  // namespace

extern "C" {

// Makes `outputs`, which lie outside of any graph, results of `inputs` with that backward pass.
// Takes the closure; drops it at once if no gradient is needed. Null, or a message to be freed with
// `free`.
char* gimlet_set_backward(const at::Tensor* const* inputs, size_t num_inputs,
                          const at::Tensor* const* outputs, size_t num_outputs,
                          GimletClosure backward) noexcept {
  return guarded([&] {
    auto owned = std::make_unique<Closure>(backward);
    variable_list from;
    for (size_t i = 0; i < num_inputs; ++i) from.push_back(*inputs[i]);
    if (!torch::autograd::compute_requires_grad(from)) return;
    auto edges = torch::autograd::collect_next_edges(from);
    auto node = std::shared_ptr<Operation>(new Operation(std::move(owned), std::move(edges)),
                                           torch::autograd::deleteNode);
    for (size_t i = 0; i < num_outputs; ++i) {
      TORCH_CHECK(!outputs[i]->is_view(), "an output of an operation of Gimlet's is a view");
      torch::autograd::set_history(*outputs[i], node);
    }
  });
}

// Calls `hook` with the leaf each time its `grad` has been added to. Takes the closure.
char* gimlet_set_gradient_hook(const at::Tensor* leaf, GimletClosure hook) noexcept {
  return guarded([&] {
    torch::autograd::impl::set_post_acc_grad_hooks(*leaf, std::make_unique<Hook>(hook));
  });
}

// Removes a leaf's hook.
char* gimlet_clear_gradient_hook(const at::Tensor* leaf) noexcept {
  return guarded([&] { torch::autograd::impl::set_post_acc_grad_hooks(*leaf, nullptr); });
}

// Moves a leaf's gradient to `taken`, an undefined tensor.
void gimlet_take_gradient(const at::Tensor* leaf, at::Tensor* taken) noexcept {
  *taken = std::exchange(leaf->mutable_grad(), at::Tensor());
}

// Adds `gradient` to that of a leaf, in the leaf's format.
char* gimlet_add_gradient(const at::Tensor* leaf, const at::Tensor* gradient) noexcept {
  return guarded([&] {
    const at::NoGradGuard no_grad;
    at::Tensor& sum = leaf->mutable_grad();
    if (sum.defined()) {
      sum.add_(*gradient);
    } else {
      sum = gradient->to(leaf->scalar_type(), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
    }
  });
}

// The number of times that a tensor, or another one in the same memory, was changed.
int64_t gimlet_version(const at::Tensor* tensor) noexcept { return static_cast<int64_t>(tensor->_version()); }

// Gradients of the inputs from those of the outputs, written to `results`, undefined tensors; they stay
// undefined for inputs that no output depends on. Every input requires a gradient.
char* gimlet_gradients(const at::Tensor* const* outputs, const at::Tensor* const* output_gradients,
                       size_t num_outputs, const at::Tensor* const* inputs, at::Tensor* const* results,
                       size_t num_inputs) noexcept {
  return guarded([&] {
    variable_list from, given, to;
    for (size_t i = 0; i < num_outputs; ++i) {
      from.push_back(*outputs[i]);
      given.push_back(*output_gradients[i]);
    }
    for (size_t i = 0; i < num_inputs; ++i) to.push_back(*inputs[i]);
    auto found = torch::autograd::grad(from, to, given, /*retain_graph=*/false,
                                       /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < num_inputs; ++i) *results[i] = std::move(found[i]);
  });
}

// Whether operations of this thread become part of a graph.
bool gimlet_records_gradients() noexcept { return at::GradMode::is_enabled(); }

// Until `gimlet_track` deletes what it returns, operations of this thread pass by libtorch's layers for gradients, views
// and versions (`src/nn/untracked.rs`).
void* gimlet_untrack() noexcept { return new at::AutoDispatchBelowADInplaceOrView; }

void gimlet_track(void* untracked) noexcept { delete static_cast<at::AutoDispatchBelowADInplaceOrView*>(untracked); }

// Makes `target` another handle of the same tensor.
void gimlet_assign(at::Tensor* target, const at::Tensor* source) noexcept { *target = *source; }

// State of the device's random numbers, written to `state`, an undefined tensor.
char* gimlet_random_state(const at::Tensor* on_device, at::Tensor* state) noexcept {
  return guarded([&] {
    auto generator = at::globalContext().defaultGenerator(on_device->device());
    std::lock_guard<std::mutex> lock(generator.mutex());
    *state = generator.get_state();
  });
}

char* gimlet_set_random_state(const at::Tensor* on_device, const at::Tensor* state) noexcept {
  return guarded([&] {
    auto generator = at::globalContext().defaultGenerator(on_device->device());
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(*state);
  });
}

}  // extern "C"
