// The torch side of `bridge/kernels/`: takes tensors, checks the requirements of the kernels,
// launches on libtorch's current stream or runs on its threads. `src/nn/fused/kernels.rs` calls it.

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <type_traits>

#include "kernels/cpu.h"

#ifdef GIMLET_CUDA
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/kernels.h"
#endif

namespace {

using gimlet::Dtype;

// The arguments of a kernel. Tensors are in the order in which the function of its name reads them;
// an undefined one is absent.
struct Call {
  const at::Tensor* const* tensors;
  size_t num_tensors;
  const double* numbers;
  size_t num_numbers;

  const at::Tensor& tensor(size_t index) const {
    TORCH_CHECK(index < num_tensors, "tensor ", index, " is missing");
    return *tensors[index];
  }

  double number(size_t index) const {
    TORCH_CHECK(index < num_numbers, "number ", index, " is missing");
    return numbers[index];
  }

  // The start of the numbers of a dense tensor of that kind; null for an absent one.
  template <typename T = void>
  T* data(size_t index, at::ScalarType kind) const {
    const at::Tensor& found = tensor(index);
    if (!found.defined()) return nullptr;
    TORCH_CHECK(found.is_contiguous(), "tensor ", index, " is not contiguous");
    // Matrices are read in packs, vectors are not.
    return static_cast<T*>(checked(index, kind, alignment<T>()));
  }

  // The same for a matrix whose rows may be apart.
  void* rows(size_t index, at::ScalarType kind) const {
    const at::Tensor& found = tensor(index);
    TORCH_CHECK(found.dim() == 2 && found.stride(1) == 1 && found.stride(0) % 8 == 0, "tensor ", index,
                " is not a matrix of dense rows");
    return checked(index, kind, 16);
  }

 private:
  template <typename T>
  static constexpr size_t alignment() {
    if constexpr (std::is_void_v<T>) return 16;
    else return alignof(T);
  }

  void* checked(size_t index, at::ScalarType kind, size_t alignment) const {
    const at::Tensor& found = tensor(index);
    TORCH_CHECK(found.scalar_type() == kind, "tensor ", index, " is ", found.scalar_type(), ", not ", kind);
    TORCH_CHECK(found.device() == tensor(0).device(), "tensor ", index, " is on ", found.device(), ", not on ",
                tensor(0).device());
    void* data = found.data_ptr();
    TORCH_CHECK(found.is_cpu() || reinterpret_cast<uintptr_t>(data) % alignment == 0, "tensor ", index, " is not aligned");
    return data;
  }
};

Dtype dtype_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16,
              "kernels compute in float32 or bfloat16, found ", tensor.scalar_type());
  return tensor.scalar_type() == at::kFloat ? Dtype::kFloat32 : Dtype::kBfloat16;
}

int last_extent(const at::Tensor& tensor) {
  const int64_t width = tensor.size(-1);
  TORCH_CHECK(width > 0 && width % 8 == 0 && width <= 1 << 24, "rows of ", width, " numbers");
  return static_cast<int>(width);
}

// residual, branch, mask, scale; sum, normal, inverse_rms. Numbers: epsilon.
gimlet::RmsNorm rms_norm(const Call& call) {
  const at::Tensor& residual = call.tensor(0);
  const auto kind = residual.scalar_type();
  gimlet::RmsNorm arguments{};
  arguments.dtype = dtype_of(residual);
  arguments.width = last_extent(residual);
  arguments.rows = residual.numel() / arguments.width;
  TORCH_CHECK(arguments.width <= 8192, "norms of at most 8192 numbers, found ", arguments.width);
  arguments.residual = call.data(0, kind);
  arguments.branch = call.data(1, kind);
  arguments.mask = call.data(2, kind);
  arguments.rows_per_mask = arguments.mask ? residual.numel() / call.tensor(2).numel() : 1;
  arguments.scale = call.data(3, kind);
  arguments.sum = call.data(4, kind);
  arguments.normal = call.data(5, kind);
  arguments.inverse_rms = call.data<float>(6, at::kFloat);
  arguments.epsilon = static_cast<float>(call.number(0));
  return arguments;
}

// normal_gradient, sum_gradient, mask, sum, scale, inverse_rms; residual_gradient, branch_gradient,
// scale_gradients.
gimlet::RmsNormBackward rms_norm_backward(const Call& call) {
  const at::Tensor& gradient = call.tensor(0);
  const auto kind = gradient.scalar_type();
  gimlet::RmsNormBackward arguments{};
  arguments.dtype = dtype_of(gradient);
  arguments.width = last_extent(gradient);
  arguments.rows = gradient.numel() / arguments.width;
  TORCH_CHECK(arguments.width <= 8192, "norms of at most 8192 numbers, found ", arguments.width);
  arguments.normal_gradient = call.data(0, kind);
  arguments.sum_gradient = call.data(1, kind);
  arguments.mask = call.data(2, kind);
  arguments.rows_per_mask = arguments.mask ? gradient.numel() / call.tensor(2).numel() : 1;
  arguments.sum = call.data(3, kind);
  arguments.scale = call.data(4, kind);
  arguments.inverse_rms = call.data<float>(5, at::kFloat);
  arguments.residual_gradient = call.data(6, kind);
  arguments.branch_gradient = call.data(7, kind);
  arguments.scale_gradients = call.data<float>(8, at::kFloat);
  arguments.parts = static_cast<int>(call.tensor(8).size(0));
  return arguments;
}

// gate, linear; product.
gimlet::GatedGelu gated_gelu(const Call& call) {
  const at::Tensor &gate = call.tensor(0), &linear = call.tensor(1);
  const auto kind = gate.scalar_type();
  gimlet::GatedGelu arguments{};
  arguments.dtype = dtype_of(gate);
  arguments.gate = call.rows(0, kind);
  arguments.linear = call.rows(1, kind);
  arguments.product = call.data(2, kind);
  arguments.rows = gate.size(0);
  arguments.gate_stride = gate.stride(0);
  arguments.linear_stride = linear.stride(0);
  arguments.width = last_extent(gate);
  return arguments;
}

// product_gradient, gate, linear; gate_gradient, linear_gradient.
gimlet::GatedGeluBackward gated_gelu_backward(const Call& call) {
  const at::Tensor &gate = call.tensor(1), &linear = call.tensor(2);
  const auto kind = gate.scalar_type();
  gimlet::GatedGeluBackward arguments{};
  arguments.dtype = dtype_of(gate);
  arguments.product_gradient = call.data(0, kind);
  arguments.gate = call.rows(1, kind);
  arguments.linear = call.rows(2, kind);
  arguments.gate_gradient = call.rows(3, kind);
  arguments.linear_gradient = call.rows(4, kind);
  TORCH_CHECK(call.tensor(3).stride(0) == gate.stride(0) && call.tensor(4).stride(0) == linear.stride(0),
              "gradients do not lie as what they are of");
  arguments.rows = gate.size(0);
  arguments.gate_stride = gate.stride(0);
  arguments.linear_stride = linear.stride(0);
  arguments.width = last_extent(gate);
  return arguments;
}

// logits, tokens, coefficients; loss, z_loss, correct, narrow_gradient. Numbers: z_factor, confidence, low, least.
gimlet::CrossEntropy cross_entropy(const Call& call) {
  const at::Tensor& logits = call.tensor(0);
  gimlet::CrossEntropy arguments{};
  arguments.dtype = dtype_of(logits);
  arguments.logits = call.data(0, logits.scalar_type());
  arguments.tokens = call.data<int64_t>(1, at::kLong);
  arguments.coefficients = call.data<float>(2, at::kFloat);
  arguments.loss = call.data<float>(3, at::kFloat);
  arguments.z_loss = call.data<float>(4, at::kFloat);
  arguments.correct = call.data<float>(5, at::kFloat);
  arguments.narrow_gradient = call.data(6, at::kBFloat16);
  arguments.rows = logits.size(0);
  arguments.vocab = last_extent(logits);
  arguments.z_factor = static_cast<float>(call.number(0));
  arguments.confidence = static_cast<float>(call.number(1));
  arguments.low = static_cast<float>(call.number(2));
  arguments.least = static_cast<float>(call.number(3));
  return arguments;
}

// values [batch, heads, queries, keys]; sums [parts, heads, queries + keys - 1].
gimlet::DiagonalSums diagonal_sums(const Call& call) {
  const at::Tensor& values = call.tensor(0);
  TORCH_CHECK(values.dim() == 4, "a bias has four axes");
  gimlet::DiagonalSums arguments{};
  arguments.dtype = dtype_of(values);
  arguments.values = call.data(0, values.scalar_type());
  arguments.sums = call.data<float>(1, at::kFloat);
  arguments.batch = values.size(0);
  arguments.heads = static_cast<int>(values.size(1));
  arguments.queries = static_cast<int>(values.size(2));
  arguments.keys = static_cast<int>(values.size(3));
  arguments.parts = static_cast<int>(call.tensor(1).size(0));
  return arguments;
}

// values; amax.
gimlet::LargestMagnitude largest_magnitude(const Call& call) {
  const at::Tensor& values = call.tensor(0);
  gimlet::LargestMagnitude arguments{};
  arguments.dtype = dtype_of(values);
  arguments.values = call.data(0, values.scalar_type());
  arguments.count = values.numel();
  TORCH_CHECK(arguments.count % 8 == 0, arguments.count, " numbers");
  arguments.amax = call.data<float>(1, at::kFloat);
  return arguments;
}

// values, scale, amax; narrow, transposed. The format is that of the results.
gimlet::CastFp8 cast_fp8(const Call& call) {
  const at::Tensor& values = call.tensor(0);
  const auto format = (call.tensor(3).defined() ? call.tensor(3) : call.tensor(4)).scalar_type();
  TORCH_CHECK(format == at::kFloat8_e4m3fn || format == at::kFloat8_e5m2, "a cast to ", format);
  gimlet::CastFp8 arguments{};
  arguments.dtype = dtype_of(values);
  arguments.format = format == at::kFloat8_e4m3fn ? gimlet::Fp8::kE4m3 : gimlet::Fp8::kE5m2;
  arguments.values = call.data(0, values.scalar_type());
  arguments.scale = call.data<float>(1, at::kFloat);
  arguments.amax = call.data<float>(2, at::kFloat);
  arguments.narrow = call.data(3, format);
  arguments.transposed = call.data(4, format);
  arguments.rows = values.size(0);
  arguments.columns = last_extent(values);
  return arguments;
}

// Tensor `rates`: those that change. Numbers: those of the rule in order, from the first.
gimlet::AdafactorRule adafactor_rule(const Call& call, size_t rates) {
  const auto number = [&](size_t index) { return static_cast<float>(call.number(index)); };
  constexpr int64_t kRates = sizeof(gimlet::AdafactorRates) / sizeof(float);
  TORCH_CHECK(call.tensor(rates).numel() == kRates, "rates of shape ", call.tensor(rates).sizes());
  gimlet::AdafactorRule rule{};
  rule.rates = reinterpret_cast<const gimlet::AdafactorRates*>(call.data<float>(rates, at::kFloat));
  rule.epsilon = number(0);
  rule.by_parameter_scale = call.number(1) != 0;
  rule.least_scale = number(2);
  rule.greatest_scale = number(3);
  rule.threshold = number(4);
  return rule;
}

// gradient, param, row_moment, column_moment, rates, squares, copy. Numbers: the rule's, mean_of_rows, gradient_factor,
// copy_factor.
gimlet::AdafactorMatrix adafactor_matrix(const Call& call) {
  const at::Tensor &gradient = call.tensor(0), &param = call.tensor(1), &copy = call.tensor(6);
  gimlet::AdafactorMatrix arguments{};
  arguments.rule = adafactor_rule(call, 4);
  arguments.rows = gradient.size(0);
  arguments.columns = last_extent(gradient);
  TORCH_CHECK(gradient.dim() == 2 && param.sizes() == gradient.sizes(), "a matrix of shape ",
              param.sizes(), " with a gradient of shape ", gradient.sizes());
  TORCH_CHECK(call.tensor(2).numel() == arguments.rows && call.tensor(3).numel() == arguments.columns,
              "moments of ", call.tensor(2).numel(), " rows and ", call.tensor(3).numel(), " columns");
  TORCH_CHECK(!copy.defined() || copy.sizes() == param.sizes(), "a matrix of shape ", param.sizes(),
              " with a copy of shape ", copy.sizes());
  arguments.gradient_dtype = dtype_of(gradient);
  arguments.gradient = call.rows(0, gradient.scalar_type());
  arguments.gradient_stride = gradient.stride(0);
  arguments.param = static_cast<float*>(call.data(1, at::kFloat));
  arguments.row_moment = call.data<float>(2, at::kFloat);
  arguments.column_moment = static_cast<float*>(call.data(3, at::kFloat));
  arguments.squares = call.data<float>(5, at::kFloat);
  if (copy.defined()) {
    arguments.copy = call.rows(6, at::kBFloat16);
    arguments.copy_stride = copy.stride(0);
    copy.unsafeGetTensorImpl()->bump_version();
  }
  arguments.mean_of_rows = call.number(5) != 0;
  arguments.gradient_factor = static_cast<float>(call.number(6));
  arguments.copy_factor = static_cast<float>(call.number(7));
#ifdef GIMLET_CUDA
  if (gradient.is_cuda()) {
    // The allocator keeps it for what the stream still does.
    const int64_t numbers = gimlet::adafactor_workspace(arguments.rows, arguments.columns);
    arguments.workspace = at::empty({numbers}, param.options()).mutable_data_ptr<float>();
  }
#endif
  param.unsafeGetTensorImpl()->bump_version();  // a graph that still needs it must notice
  return arguments;
}

// gradient, param, moment, rates, squares. Numbers: the rule's.
gimlet::AdafactorVector adafactor_vector(const Call& call) {
  const at::Tensor &gradient = call.tensor(0), &param = call.tensor(1);
  TORCH_CHECK(param.sizes() == gradient.sizes() && call.tensor(2).sizes() == gradient.sizes() &&
                  gradient.numel() <= 1 << 20,
              "a vector of shape ", param.sizes(), " with a gradient of shape ", gradient.sizes());
  gimlet::AdafactorVector arguments{};
  arguments.rule = adafactor_rule(call, 3);
  arguments.gradient = call.data<float>(0, at::kFloat);
  arguments.param = call.data<float>(1, at::kFloat);
  arguments.moment = call.data<float>(2, at::kFloat);
  arguments.squares = call.data<float>(4, at::kFloat);
  arguments.count = static_cast<int>(gradient.numel());
  param.unsafeGetTensorImpl()->bump_version();
  return arguments;
}

// A kernel on each kind of device; null where it has none.
struct Kernel {
  void (*on_cpu)(const Call&);
  void (*on_cuda)(const Call&);
};

#define GIMLET_ON_CPU(name) [](const Call& call) { gimlet::name(name(call)); }
#ifdef GIMLET_CUDA
#define GIMLET_ON_CUDA(name) [](const Call& call) { succeed(gimlet::name(name(call), current_stream())); }

cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

void succeed(cudaError_t error) { TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error)); }
#else
#define GIMLET_ON_CUDA(name) nullptr
#endif
#define GIMLET_ON_BOTH(name) {#name, {GIMLET_ON_CPU(name), GIMLET_ON_CUDA(name)}}
#define GIMLET_ONLY_ON_CUDA(name) {#name, {nullptr, GIMLET_ON_CUDA(name)}}

void launch(const char* name, const Call& call) {
  static const std::map<std::string, Kernel> kernels = {
      GIMLET_ON_BOTH(rms_norm),          GIMLET_ON_BOTH(rms_norm_backward),
      GIMLET_ON_BOTH(gated_gelu),        GIMLET_ON_BOTH(gated_gelu_backward),
      GIMLET_ON_BOTH(cross_entropy),     GIMLET_ONLY_ON_CUDA(diagonal_sums),
      GIMLET_ONLY_ON_CUDA(cast_fp8),     GIMLET_ONLY_ON_CUDA(largest_magnitude),
      GIMLET_ON_BOTH(adafactor_matrix),  GIMLET_ON_BOTH(adafactor_vector),
  };
  const auto found = kernels.find(name);
  TORCH_CHECK(found != kernels.end(), "no kernel has this name");
  if (call.tensor(0).numel() == 0) return;  // a grid of no blocks is an error
  const auto device = call.tensor(0).device();
  const auto run = device.is_cuda() ? found->second.on_cuda : found->second.on_cpu;
  TORCH_CHECK(run != nullptr, "this build has no such kernel for ", device);
#ifdef GIMLET_CUDA
  const c10::cuda::OptionalCUDAGuard guard(device.is_cuda() ? c10::optional<c10::Device>(device) : c10::nullopt);
#endif
  // Profilers assign a kernel to the operation that launched it, so the call needs to be one.
  at::RecordFunction operation(at::RecordScope::FUNCTION);
  operation.before(name);
  run(call);
}

}  // namespace

// Launches the kernel of that name. Null, or a message to be freed with `free`.
extern "C" char* gimlet_launch(const char* name, const at::Tensor* const* tensors, size_t num_tensors,
                               const double* numbers, size_t num_numbers) noexcept {
  try {
    launch(name, Call{tensors, num_tensors, numbers, num_numbers});
    return nullptr;
  } catch (const c10::Error& error) {
    return strdup((std::string("kernel `") + name + "`: " + error.what_without_backtrace()).c_str());
  } catch (...) {
    return strdup("an unknown C++ exception");
  }
}
