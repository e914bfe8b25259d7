// Matrix products by the library that is fastest on this CPU.
//
// libtorch sends float32 products to MKL and bfloat16 ones to oneDNN. MKL uses AVX2 at most on CPUs that are
// not Intel's; oneDNN has AVX-512 kernels for every CPU: 2.5 times as fast on an AMD EPYC of 2025. On an
// Intel CPU without AMX, oneDNN is slow: its bfloat16 products take 1.5 times as long as widening
// both factors for MKL. Without AVX-512 oneDNN has no bfloat16, and libtorch's own loops take its place. All compute in float32 throughout and round once. The kernels below replace
// libtorch's for `mm` and similar operations, in forward and backward passes alike, and pass
// unsuitable products back to libtorch.

#include <ATen/core/Tensor.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "products.h"

namespace at::native {
// Exported by libtorch_cpu; its header is not shipped. result = alpha * mat1 @ mat2 + beta * result.
TORCH_API void mkldnn_matmul(
    const Tensor& mat1, const Tensor& mat2, const Tensor& result, float beta, float alpha);
}  // namespace at::native

namespace {

// Products with fewer multiplications cost less than oneDNN's setup, or than widening.
constexpr int64_t kMinWork = 1 << 16;

bool float_by_onednn = false;
bool bfloat16_by_mkl = false;

// Whether the matrices are dense, row by row or column by column: oneDNN copies others first.
bool is_dense(const at::Tensor& t) {
  if (t.is_contiguous()) return true;
  const int64_t rows = t.size(-2), columns = t.size(-1);
  if (t.stride(-2) != 1 || t.stride(-1) != rows) return false;
  return t.dim() == 2 || t.stride(0) == rows * columns;
}

bool suits(const at::Tensor& a, const at::Tensor& b) {
  if (!float_by_onednn) return false;
  if (a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat) return false;
  if (a.layout() != at::kStrided || b.layout() != at::kStrided) return false;
  if (a.size(-1) != b.size(-2)) return false;  // libtorch has the error message
  if (a.dim() == 3 && a.size(0) != b.size(0)) return false;
  const int64_t work = a.numel() * b.size(-1);
  return work >= kMinWork && is_dense(a) && is_dense(b);
}

bool suits_result(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  if (out.scalar_type() != at::kFloat || !out.is_contiguous() || out.dim() != a.dim()) return false;
  if (out.size(-2) != a.size(-2) || out.size(-1) != b.size(-1)) return false;
  return out.dim() == 2 || out.size(0) == a.size(0);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = a.dim() == 2 ? at::empty({a.size(0), b.size(1)}, a.options())
                                : at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  at::native::mkldnn_matmul(a, b, out, 0.f, 1.f);
  return out;
}

bool is_widened(const at::Tensor& a, const at::Tensor& b) {
  if (!bfloat16_by_mkl) return false;
  if (a.scalar_type() != at::kBFloat16 || b.scalar_type() != at::kBFloat16) return false;
  if (a.layout() != at::kStrided || b.layout() != at::kStrided) return false;
  return a.dim() == b.dim() && a.numel() * b.size(-1) >= kMinWork;
}

at::Tensor wide(const at::Tensor& t) { return t.to(at::kFloat); }

at::Tensor mm(const at::Tensor& a, const at::Tensor& b) {
  if (is_widened(a, b)) return at::cpu::mm(wide(a), wide(b)).to(at::kBFloat16);
  return a.dim() == 2 && b.dim() == 2 && suits(a, b) ? product(a, b) : at::cpu::mm(a, b);
}

at::Tensor bmm(const at::Tensor& a, const at::Tensor& b) {
  if (is_widened(a, b)) return at::cpu::bmm(wide(a), wide(b)).to(at::kBFloat16);
  return a.dim() == 3 && b.dim() == 3 && suits(a, b) ? product(a, b) : at::cpu::bmm(a, b);
}

at::Tensor& mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  if (a.dim() != 2 || b.dim() != 2 || !suits(a, b) || !suits_result(a, b, out)) {
    return at::cpu::mm_out(out, a, b);
  }
  at::native::mkldnn_matmul(a, b, out, 0.f, 1.f);
  return out;
}

at::Tensor& addmm_(
    at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
    const at::Scalar& alpha) {
  if (a.dim() != 2 || b.dim() != 2 || !suits(a, b) || !suits_result(a, b, self)) {
    return at::cpu::addmm_(self, a, b, beta, alpha);
  }
  at::native::mkldnn_matmul(a, b, self, beta.to<float>(), alpha.to<float>());
  return self;
}

}  // namespace

// Whether oneDNN multiplies tiles of bfloat16 (AMX): not with ONEDNN_MAX_CPU_ISA=AVX512_CORE, whatever the CPU.
extern "C" bool gimlet_has_tiles() noexcept { return at::native::cpublas::could_pack(at::kBFloat16); }

bool small_products_in_bfloat16() { return !bfloat16_by_mkl && gimlet_has_tiles(); }

// Call once, before the first product.
extern "C" void gimlet_set_products(bool float_onednn, bool bfloat16_mkl) noexcept {
  float_by_onednn = float_onednn;
  bfloat16_by_mkl = bfloat16_mkl;
  static torch::Library* library = [] {
    // libtorch warns of replaced kernels, but here it is intended.
    struct Silent : c10::WarningHandler {
      void process(const c10::Warning&) override {}
    } handler;
    c10::WarningUtils::WarningHandlerGuard guard(&handler);
    auto* replaced =
        new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    replaced->impl("mm", &mm);
    replaced->impl("mm.out", &mm_out);
    replaced->impl("bmm", &bmm);
    replaced->impl("addmm_", &addmm_);
    return replaced;
  }();
  (void)library;
}
