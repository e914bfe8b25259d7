// Products with kernels that were laid out once: of a few rows, as in steps of decoding. `tiles.cpp` has those of many
// rows.
//
// The kernel lies in panels of 32 columns. With few rows, products take as long as reading the
// kernel: each thread reads some panels from front to back. oneDNN and MKL, packed or not, took 1.2
// to 3 times as long for 8 rows on an Intel Xeon without AMX, beside other jobs.
// Everything is computed in float32; bfloat16 results are rounded once.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "guarded.h"
#include "packed.h"
#include "panels.h"
#include "parallel.h"

extern "C" {

struct GimletProduct {
  const at::Tensor *inputs, *panels, *scale, *residual;
  int64_t out, length, width;
  double epsilon;
  bool gated;
};

}  // extern "C"

namespace {

// Greatest number of rows that are computed at once.
constexpr int64_t kFewRows = 32;
// Rows of a panel that stay in the first cache while all rows of the inputs are processed.
constexpr int64_t kDepth = 256;
// Fewer bytes than this are not worth waking another thread.
constexpr int64_t kMinBytes = 1 << 18;

// sums += the block's rows times `depth` rows of a panel, of which `from` is the first.
template <typename T>
GIMLET_INLINE void multiply_part(const T* part, const Block<float>& block, int64_t in, int64_t from, int64_t depth,
                                 Sums* sums) {
  const auto rows = [&](int64_t row) { return RowPointers(block.rows + row * in + from, in, block.count - row); };
  multiply<Ahead::kAsk>(part, rows(0).of, depth, sums[0]);
  for (int64_t row = kRows; row < block.count; row += kRows) {
    multiply<Ahead::kHave>(part, rows(row).of, depth, sums[row / kRows]);
  }
}

template <typename T>
GIMLET_INLINE void multiply_panel(const Product<T>& product, const Block<float>& block, int64_t index) {
  const T* panel = product.panels + index * product.in * kColumns;
  Sums sums[kFewRows / kRows];
  for (int64_t from = 0; from < product.in; from += kDepth) {
    const int64_t depth = std::min(kDepth, product.in - from);
    multiply_part(panel + from * kColumns, block, product.in, from, depth, sums);
  }
  const PanelColumns columns(product, index);
  for (int64_t row = 0; row < block.count; ++row) {
    finish(product, sums[row / kRows].of[row % kRows], block.offsets[row], columns);
  }
}

}  // namespace

GIMLET_CLONES void gimlet_convert_rows(const Product<float>& product, int64_t first, int64_t count, float* to) {
  convert_rows(product, first, count, to);
}

GIMLET_CLONES void gimlet_convert_rows(const Product<c10::BFloat16>& product, int64_t first, int64_t count,
                                       float* to) {
  convert_rows(product, first, count, to);
}

GIMLET_CLONES void gimlet_convert_rows(const Product<c10::BFloat16>& product, int64_t first, int64_t count,
                                       c10::BFloat16* to) {
  convert_rows(product, first, count, to);
}

GIMLET_CLONES void gimlet_multiply_panel(const Product<float>& product, const Block<float>& block, int64_t index) {
  multiply_panel(product, block, index);
}

GIMLET_CLONES void gimlet_multiply_panel(const Product<c10::BFloat16>& product, const Block<float>& block,
                                         int64_t index) {
  multiply_panel(product, block, index);
}

namespace {

// All threads multiply the same rows, each by some panels.
template <typename T>
void compute_by_panels(const Product<T>& product) {
  std::vector<float> room;
  const int64_t panel_bytes = product.in * kColumns * static_cast<int64_t>(sizeof(T));
  for (int64_t first = 0; first < product.rows; first += kFewRows) {
    const Block<float> block = prepare(product, first, std::min(kFewRows, product.rows - first), /*step=*/1, room);
    share_out_awake(product.num_panels(), std::max<int64_t>(1, kMinBytes / panel_bytes),
                    [&](int64_t index) { gimlet_multiply_panel(product, block, index); });
  }
}

// Whether a kernel is in tiles, and whether their rows lie in pairs.
bool has_pairs(const at::Tensor& kernel) { return kernel.dim() == 4; }
bool is_tiled(const at::Tensor& kernel) { return kernel.size(2) == kTileColumns; }

template <typename T>
void compute(const GimletProduct& in, const at::Tensor& result) {
  const auto values = [](const at::Tensor* tensor) { return tensor ? tensor->const_data_ptr<T>() : nullptr; };
  const Product<T> product{values(in.inputs), values(in.panels), values(in.scale), values(in.residual),
                           result.mutable_data_ptr<T>(), in.inputs->size(0), in.inputs->size(1), in.out,
                           in.length, in.width, static_cast<float>(in.epsilon), in.gated};
  is_tiled(*in.panels) ? compute_by_tiles(product, has_pairs(*in.panels)) : compute_by_panels(product);
}

void check(const GimletProduct& in) {
  const auto& panels = *in.panels;
  const bool pairs = has_pairs(panels);
  TORCH_CHECK(panels.is_contiguous() && (pairs ? panels.size(3) == 2 && panels.scalar_type() == at::kBFloat16
                                               : panels.dim() == 3) &&
                  (panels.size(2) == kTileColumns || (panels.size(2) == kColumns && !pairs)),
              "neither panels nor tiles");
  const int64_t depth = panels.size(1) * (pairs ? 2 : 1);
  TORCH_CHECK(in.inputs->dim() == 2 && in.inputs->size(1) == depth,
              "inputs are not [rows, ", depth, "], but ", in.inputs->sizes());
  TORCH_CHECK(depth > 0 && in.out > 0 && in.length > 0 && in.width > 0, "a product without extent");
  TORCH_CHECK(!in.gated || in.residual == nullptr, "nothing is added to a gated product");
  const int64_t rows = in.inputs->size(0), columns = (is_tiled(panels) ? 2 : 1) * (in.gated ? kLanes : kColumns);
  TORCH_CHECK(panels.size(0) == quotient_up(in.out, columns), "not the panels of ", in.out, " columns");
  TORCH_CHECK(rows % in.length == 0 && in.out % in.width == 0 && (in.width % kLanes == 0 || in.width == in.out),
              "results of ", in.length, " rows and ", in.width, " columns do not make up [", rows, ", ", in.out, "]");
  for (const at::Tensor* other : {in.inputs, in.scale, in.residual}) {
    if (other == nullptr) continue;
    TORCH_CHECK(other->scalar_type() == panels.scalar_type() && other->is_contiguous(),
                "inputs, scale or residual are ", other->scalar_type(), ", the kernel is ", panels.scalar_type());
  }
  TORCH_CHECK(in.scale == nullptr || in.scale->numel() == depth, "the scale is not [in]");
  TORCH_CHECK(in.residual == nullptr || in.residual->numel() == rows * in.out, "the residual is not [rows, out]");
}

}  // namespace

extern "C" {

// Bytes of the registers that the code for this CPU uses.
int64_t gimlet_register_bytes() noexcept {
#ifdef GIMLET_HAS_CLONES
  if (__builtin_cpu_supports("x86-64-v4")) return 64;
  if (__builtin_cpu_supports("x86-64-v3")) return 32;
#endif
  return 16;
}

// Sets `result` to inputs @ kernel for a kernel in `panels` [panels, in, 32], or in tiles [tiles, in, 64], or with
// their rows in pairs [tiles, in / 2, 64, 2] (`tiles.cpp`), float32 or bfloat16 like all tensors. The result is
// [rows, out], or, unless its pieces have a `length` of 1 and the `width` of all columns, [rows / length, out / width,
// length, width]. With a `scale` [in] the inputs are normalized first, with `epsilon` beside their mean square; a `residual` in the result's layout is added;
// either may be null. Null, or a message to be freed with `free`.
char* gimlet_packed_product(GimletProduct in, at::Tensor* result) noexcept {
  return guarded([&] {
    const at::Tensor inputs = in.inputs->contiguous();
    in.inputs = &inputs;
    check(in);
    const int64_t rows = inputs.size(0);
    const bool is_whole = in.length == 1 && in.width == in.out;
    *result = is_whole ? at::empty({rows, in.out}, inputs.options())
                       : at::empty({rows / in.length, in.out / in.width, in.length, in.width}, inputs.options());
    if (rows == 0) return;
    in.panels->scalar_type() == at::kBFloat16 ? compute<c10::BFloat16>(in, *result) : compute<float>(in, *result);
  });
}

}  // extern "C"
