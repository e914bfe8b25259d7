// Products of a few rows with a kernel that was laid out once, as in steps of decoding, and what is done on the way: the
// norm of the inputs before, and the activation or the sum with a residual after it.
//
// The kernel lies in panels of 32 columns. With few rows, products take as long as reading the
// kernel: each thread reads some panels from front to back. oneDNN and MKL, packed or not, took 1.2
// to 3 times as long for 8 rows on an Intel Xeon without AMX, beside other jobs.
// Everything is computed in float32; bfloat16 results are rounded once.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "guarded.h"
#include "panels.h"
#include "parallel.h"

extern "C" {

struct GimletProduct {
  const at::Tensor *inputs, *panels, *scale, *residual;
  int64_t out;
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

template <typename T>
struct Product {
  const T* inputs;    // [rows, in]
  const T* panels;    // [.., in, 32]
  const T* scale;     // [in], or null: the inputs are normalized by their root mean square first
  const T* residual;  // as the result, or null: it is added
  T* result;          // [rows, out]
  int64_t rows, in, out;
  float epsilon;  // is added to the mean square
  bool gated;  // a panel's first half is of the gate, its second half of what is multiplied by the gate's GELU

  // Number of columns of the result from one panel.
  int64_t columns() const { return gated ? kLanes : kColumns; }
  int64_t num_panels() const { return (out + columns() - 1) / columns(); }
};

// Converts a row, and normalizes it if there is a scale: in float32, rounded to the dtype, then scaled (T5X
// `layers.py`).
template <typename T>
GIMLET_INLINE void convert_row(const T* from, const T* scale, float epsilon, int64_t length, float* row) {
  if (scale == nullptr) {
    for (int64_t k = 0; k < length; k += kLanes) write(read(from + k, length - k), row + k, length - k);
    return;
  }
  Floats squares = {};
  for (int64_t k = 0; k < length; k += kLanes) {
    const Floats values = read(from + k, length - k);
    squares += values * values;
  }
  const float factor = 1.0f / std::sqrt(sum(squares) / static_cast<float>(length) + epsilon);
  for (int64_t k = 0; k < length; k += kLanes) {
    const Floats normal = rounded<T>(read(from + k, length - k) * factor);
    write(rounded<T>(normal * read(scale + k, length - k)), row + k, length - k);
  }
}

// Converts `count` rows of the inputs from `first` on.
template <typename T>
GIMLET_INLINE void convert_rows(const Product<T>& product, int64_t first, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    convert_row(product.inputs + (first + i) * product.in, product.scale, product.epsilon, product.in, to + i * product.in);
  }
}

// Some rows of the inputs in float32, and which is the first of them.
struct Block {
  const float* rows;
  int64_t first, count;
};

// sums += the block's rows times `depth` rows of a panel, of which `from` is the first.
template <typename T>
GIMLET_INLINE void multiply_part(const T* part, const Block& block, int64_t in, int64_t from, int64_t depth, Sums* sums) {
  const auto rows = [&](int64_t row) { return RowPointers(block.rows + row * in + from, in, block.count - row); };
  multiply<Ahead::kAsk>(part, rows(0).of, depth, sums[0]);
  for (int64_t row = kRows; row < block.count; row += kRows) {
    multiply<Ahead::kHave>(part, rows(row).of, depth, sums[row / kRows]);
  }
}

// Writes a row of a panel's sums to the result, from `column` on.
template <typename T>
GIMLET_INLINE void finish(const Product<T>& product, const Floats sums[2], int64_t row, int64_t column) {
  const int64_t at = row * product.out + column;
  if (product.gated) {
    const Floats gate = rounded<T>(gelu(rounded<T>(sums[0])));
    write(gate * rounded<T>(sums[1]), product.result + at, product.out - column);
    return;
  }
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t offset = half * kLanes, left = product.out - column - offset;
    if (left <= 0) return;
    Floats values = rounded<T>(sums[half]);
    if (product.residual != nullptr) values += read(product.residual + at + offset, left);
    write(values, product.result + at + offset, left);
  }
}

template <typename T>
GIMLET_INLINE void multiply_panel(const Product<T>& product, const Block& block, int64_t index) {
  const T* panel = product.panels + index * product.in * kColumns;
  Sums sums[kFewRows / kRows];
  for (int64_t from = 0; from < product.in; from += kDepth) {
    const int64_t depth = std::min(kDepth, product.in - from);
    multiply_part(panel + from * kColumns, block, product.in, from, depth, sums);
  }
  for (int64_t row = 0; row < block.count; ++row) {
    finish(product, sums[row / kRows].of[row % kRows], block.first + row, index * product.columns());
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

GIMLET_CLONES void gimlet_multiply_panel(const Product<float>& product, const Block& block, int64_t index) {
  multiply_panel(product, block, index);
}

GIMLET_CLONES void gimlet_multiply_panel(const Product<c10::BFloat16>& product, const Block& block, int64_t index) {
  multiply_panel(product, block, index);
}

namespace {

// `room` is memory for rows that cannot be multiplied in place, since they are normalized or converted.
template <typename T>
Block prepare(const Product<T>& product, int64_t first, int64_t count, std::vector<float>& room) {
  if constexpr (std::is_same_v<T, float>) {
    if (product.scale == nullptr) return {product.inputs + first * product.in, first, count};
  }
  float* const to = sized(room, count * product.in);
  gimlet_convert_rows(product, first, count, to);
  return {to, first, count};
}

// All threads multiply the same rows, each by some panels.
template <typename T>
void compute(const GimletProduct& in, const at::Tensor& result) {
  const auto values = [](const at::Tensor* tensor) { return tensor ? tensor->const_data_ptr<T>() : nullptr; };
  const Product<T> product{values(in.inputs), values(in.panels), values(in.scale), values(in.residual),
                           result.mutable_data_ptr<T>(), in.inputs->size(0), in.inputs->size(1), in.out,
                           static_cast<float>(in.epsilon), in.gated};
  std::vector<float> room;
  const int64_t panel_bytes = product.in * kColumns * static_cast<int64_t>(sizeof(T));
  for (int64_t first = 0; first < product.rows; first += kFewRows) {
    const Block block = prepare(product, first, std::min(kFewRows, product.rows - first), room);
    share_out_awake(product.num_panels(), std::max<int64_t>(1, kMinBytes / panel_bytes),
                    [&](int64_t index) { gimlet_multiply_panel(product, block, index); });
  }
}

void check(const GimletProduct& in) {
  const auto& panels = *in.panels;
  TORCH_CHECK(panels.is_contiguous() && panels.dim() == 3 && panels.size(2) == kColumns, "no panels");
  const int64_t depth = panels.size(1), columns = in.gated ? kLanes : kColumns;
  TORCH_CHECK(in.inputs->dim() == 2 && in.inputs->size(1) == depth,
              "inputs are not [rows, ", depth, "], but ", in.inputs->sizes());
  TORCH_CHECK(depth > 0 && in.out > 0, "a product without extent");
  TORCH_CHECK(!in.gated || in.residual == nullptr, "nothing is added to a gated product");
  TORCH_CHECK(panels.size(0) == (in.out + columns - 1) / columns, "not the panels of ", in.out, " columns");
  for (const at::Tensor* other : {in.inputs, in.scale, in.residual}) {
    if (other == nullptr) continue;
    TORCH_CHECK(other->scalar_type() == panels.scalar_type() && other->is_contiguous(),
                "inputs, scale or residual are ", other->scalar_type(), ", the kernel is ", panels.scalar_type());
  }
  TORCH_CHECK(in.scale == nullptr || in.scale->numel() == depth, "the scale is not [in]");
  TORCH_CHECK(in.residual == nullptr || in.residual->numel() == in.inputs->size(0) * in.out,
              "the residual is not [rows, out]");
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

// Sets `result` [rows, out] to inputs @ kernel for a kernel in `panels` [panels, in, 32], float32 or bfloat16 like all
// tensors. With a `scale` [in] the inputs are normalized first, with `epsilon` beside their mean square; a `residual`
// [rows, out] is added; either may be null. Null, or a message to be freed with `free`.
char* gimlet_packed_product(GimletProduct in, at::Tensor* result) noexcept {
  return guarded([&] {
    const at::Tensor inputs = in.inputs->contiguous();
    in.inputs = &inputs;
    check(in);
    *result = at::empty({inputs.size(0), in.out}, inputs.options());
    if (inputs.size(0) == 0) return;
    in.panels->scalar_type() == at::kBFloat16 ? compute<c10::BFloat16>(in, *result) : compute<float>(in, *result);
  });
}

}  // extern "C"
