// Products with kernels that were laid out once: of a few rows, as in steps of decoding, or of all
// rows of an encoder.
//
// The kernel lies in panels of 32 columns. With few rows, products take as long as reading the
// kernel: each thread reads some panels from front to back. With many rows they take as long as the
// multiplications: each thread takes some rows, which stay in its cache, through all panels. oneDNN
// and MKL, packed or not, took 1.2 to 3 times as long for 8 rows on an Intel Xeon without AMX,
// beside other jobs.
// Everything is computed in float32; bfloat16 results are rounded once.

#include <ATen/ATen.h>
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
  int64_t out, length, width;
  bool gated;
};

}  // extern "C"

namespace {

// Greatest number of rows that a thread computes at once: with a panel's part they fill its caches.
constexpr int64_t kMostRows = 96;
// With more rows than this a bfloat16 panel is widened for all of them at once.
constexpr int64_t kRowsReadingNarrow = 32;
// Rows of a panel that stay in the first cache while all rows of the inputs are processed.
constexpr int64_t kDepth = 256;
// Fewer bytes than this are not worth waking another thread.
constexpr int64_t kMinBytes = 1 << 18;

int64_t quotient_up(int64_t of, int64_t by) { return (of + by - 1) / by; }

template <typename T>
struct Product {
  const T* inputs;    // [rows, in]
  const T* panels;    // [.., in, 32]
  const T* scale;     // [in], or null: the inputs are normalized by their root mean square first
  const T* residual;  // as the result, or null: it is added
  T* result;          // [rows / length, out / width, length, width]
  int64_t rows, in, out, length, width;
  bool gated;  // a panel's first half is of the gate, its second half of what is multiplied by the gate's GELU

  // Number of columns of the result from one panel.
  int64_t columns() const { return gated ? kLanes : kColumns; }
  int64_t num_panels() const { return quotient_up(out, columns()); }
  int64_t offset_of_row(int64_t row) const { return row / length * length * out + row % length * width; }
  int64_t offset_of_column(int64_t column) const { return column / width * length * width + column % width; }
};

// Some rows in the form in which the product multiplies them.
struct Block {
  const float* rows;
  int64_t count;
  int64_t offsets[kMostRows];  // of their results
};

// Converts a row to float32, and normalizes it if there is a scale: in float32, rounded to the
// dtype, then scaled (T5X `layers.py`).
template <typename T>
GIMLET_INLINE void widen_row(const T* from, const T* scale, int64_t length, float* row) {
  Floats squares = {};
  for (int64_t k = 0; k < length; k += kLanes) {
    const Floats values = read(from + k, length - k);
    squares += values * values;
    write(values, row + k, length - k);
  }
  if (scale == nullptr) return;
  const float factor = 1.0f / std::sqrt(sum(squares) / static_cast<float>(length) + 1e-6f);
  for (int64_t k = 0; k < length; k += kLanes) {
    const Floats normal = rounded<T>(read(row + k, length - k) * factor);
    write(rounded<T>(normal * read(scale + k, length - k)), row + k, length - k);
  }
}

// Writes a row of a panel's sums to the result.
template <typename T>
GIMLET_INLINE void finish(const Product<T>& product, const Floats sums[2], int64_t row, int64_t column) {
  if (product.gated) {
    const Floats gate = rounded<T>(gelu(rounded<T>(sums[0])));
    const int64_t at = row + product.offset_of_column(column);
    return write(gate * rounded<T>(sums[1]), product.result + at, product.out - column);
  }
  for (int64_t half = 0; half < 2; ++half, column += kLanes) {
    const int64_t left = product.out - column;
    if (left <= 0) return;
    const int64_t at = row + product.offset_of_column(column);
    Floats values = rounded<T>(sums[half]);
    if (product.residual != nullptr) values += read(product.residual + at, left);
    write(values, product.result + at, left);
  }
}

// sums += the block's rows times `depth` rows of a panel, of which `from` is the first.
template <Ahead ahead, typename T>
GIMLET_INLINE void multiply_part(const T* part, const Block& block, int64_t in, int64_t from, int64_t depth,
                                 Sums* sums) {
  const auto rows = [&](int64_t row) { return RowPointers(block.rows + row * in + from, in, block.count - row); };
  multiply<ahead>(part, rows(0).of, depth, sums[0]);
  for (int64_t row = kRows; row < block.count; row += kRows) {
    multiply<Ahead::kHave>(part, rows(row).of, depth, sums[row / kRows]);
  }
}

GIMLET_INLINE void multiply_rows(const float* part, const Block& block, int64_t in, int64_t from, int64_t depth,
                                 Sums* sums) {
  multiply_part<Ahead::kAsk>(part, block, in, from, depth, sums);
}

// With many rows, it is worthwhile to widen the panel first.
GIMLET_INLINE void multiply_rows(const c10::BFloat16* part, const Block& block, int64_t in, int64_t from,
                                 int64_t depth, Sums* sums) {
  if (block.count <= kRowsReadingNarrow) return multiply_part<Ahead::kAsk>(part, block, in, from, depth, sums);
  Floats wide[kDepth][2];
  for (int64_t k = 0; k < depth; ++k) {
    read_columns(part + k * kColumns, &wide[k]);
    ask_ahead(part + k * kColumns, sizeof(*part) * kColumns);
  }
  multiply_part<Ahead::kHave>(reinterpret_cast<const float*>(wide), block, in, from, depth, sums);
}

template <typename T>
GIMLET_INLINE void multiply_panel(const Product<T>& product, const Block& block, int64_t index) {
  const T* panel = product.panels + index * product.in * kColumns;
  Sums sums[kMostRows / kRows];
  for (int64_t from = 0; from < product.in; from += kDepth) {
    const int64_t depth = std::min(kDepth, product.in - from);
    multiply_rows(panel + from * kColumns, block, product.in, from, depth, sums);
  }
  for (int64_t row = 0; row < block.count; ++row) {
    finish(product, sums[row / kRows].of[row % kRows], block.offsets[row], index * product.columns());
  }
}

}  // namespace

GIMLET_CLONES void gimlet_widen_row(const float* from, const float* scale, int64_t length, float* row) {
  widen_row(from, scale, length, row);
}

GIMLET_CLONES void gimlet_widen_row(const c10::BFloat16* from, const c10::BFloat16* scale, int64_t length,
                                    float* row) {
  widen_row(from, scale, length, row);
}

GIMLET_CLONES void gimlet_multiply_panel(const Product<float>& product, const Block& block, int64_t index) {
  multiply_panel(product, block, index);
}

GIMLET_CLONES void gimlet_multiply_panel(const Product<c10::BFloat16>& product, const Block& block,
                                         int64_t index) {
  multiply_panel(product, block, index);
}

namespace {

// `room` is memory for rows that cannot be multiplied in place; float32 rows without a norm can.
template <typename T>
Block prepare(const Product<T>& product, int64_t first, int64_t count, std::vector<float>& room) {
  const T* from = product.inputs + first * product.in;
  Block block{nullptr, count, {}};
  for (int64_t i = 0; i < count; ++i) block.offsets[i] = product.offset_of_row(first + i);
  if constexpr (std::is_same_v<T, float>) {
    if (product.scale == nullptr) {
      block.rows = from;
      return block;
    }
  }
  room.resize(std::max<size_t>(room.size(), count * product.in));
  for (int64_t i = 0; i < count; ++i) {
    gimlet_widen_row(from + i * product.in, product.scale, product.in, room.data() + i * product.in);
  }
  block.rows = room.data();
  return block;
}

// All threads multiply the same rows, each by some panels.
template <typename T>
void compute_by_panels(const Product<T>& product) {
  std::vector<float> room;
  const Block block = prepare(product, 0, product.rows, room);
  const int64_t panel_bytes = product.in * kColumns * static_cast<int64_t>(sizeof(T));
  share_out_awake(product.num_panels(), std::max<int64_t>(1, kMinBytes / panel_bytes),
                  [&](int64_t index) { gimlet_multiply_panel(product, block, index); });
}

// Each thread multiplies some rows by all panels, or few rows by some panels.
template <typename T>
void compute_by_rows(const Product<T>& product) {
  const int64_t panels = product.num_panels();
  const int64_t blocks = quotient_up(product.rows, kMostRows);
  const int64_t count = quotient_up(quotient_up(product.rows, blocks), kRows) * kRows;
  const int64_t parts = std::min(panels, quotient_up(2 * threads_awake(), blocks));
  share_out_awake(blocks * parts, /*grain=*/1, [&](int64_t task) {
    thread_local std::vector<float> room;
    const int64_t first = task / parts * count, part = task % parts;
    const Block block = prepare(product, first, std::min(count, product.rows - first), room);
    for (int64_t index = part * panels / parts; index < (part + 1) * panels / parts; ++index) {
      gimlet_multiply_panel(product, block, index);
    }
  });
}

template <typename T>
void compute(const GimletProduct& in, const at::Tensor& result) {
  const auto values = [](const at::Tensor* tensor) { return tensor ? tensor->const_data_ptr<T>() : nullptr; };
  const Product<T> product{values(in.inputs), values(in.panels), values(in.scale), values(in.residual),
                           result.mutable_data_ptr<T>(), in.inputs->size(0), in.inputs->size(1), in.out,
                           in.length, in.width, in.gated};
  product.rows <= kMostRows ? compute_by_panels(product) : compute_by_rows(product);
}

void check(const GimletProduct& in) {
  const auto& panels = *in.panels;
  TORCH_CHECK(panels.dim() == 3 && panels.size(2) == kColumns && panels.is_contiguous(), "not panels");
  TORCH_CHECK(in.inputs->dim() == 2 && in.inputs->size(1) == panels.size(1) && in.inputs->is_contiguous(),
              "inputs are not [rows, ", panels.size(1), "] in one piece, but ", in.inputs->sizes());
  TORCH_CHECK(panels.size(1) > 0 && in.out > 0 && in.length > 0 && in.width > 0, "a product without extent");
  TORCH_CHECK(!in.gated || in.residual == nullptr, "nothing is added to a gated product");
  const int64_t rows = in.inputs->size(0), columns = in.gated ? kLanes : kColumns;
  TORCH_CHECK(panels.size(0) == (in.out + columns - 1) / columns, "not the panels of ", in.out, " columns");
  TORCH_CHECK(rows % in.length == 0 && in.out % in.width == 0 && (in.width % kLanes == 0 || in.width == in.out),
              "results of ", in.length, " rows and ", in.width, " columns do not make up [", rows, ", ", in.out, "]");
  for (const at::Tensor* other : {in.inputs, in.scale, in.residual}) {
    if (other == nullptr) continue;
    TORCH_CHECK(other->scalar_type() == panels.scalar_type() && other->is_contiguous(),
                "inputs, scale or residual are ", other->scalar_type(), ", the kernel is ", panels.scalar_type());
  }
  TORCH_CHECK(in.scale == nullptr || in.scale->numel() == panels.size(1), "the scale is not [in]");
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

// Sets `result` to inputs @ kernel for a kernel in `panels` [panels, in, 32], float32 or bfloat16
// like all tensors: [rows, out] in tiles, [rows / length, out / width, length, width]. With a
// `scale` [in] the inputs are normalized first; a `residual` in the result's layout is added;
// either may be null. Null, or a message to be freed with `free`.
char* gimlet_packed_product(GimletProduct in, at::Tensor* result) noexcept {
  return guarded([&] {
    check(in);
    const int64_t rows = in.inputs->size(0);
    *result = at::empty({rows / in.length, in.out / in.width, in.length, in.width}, in.inputs->options());
    if (rows == 0) return;
    in.panels->scalar_type() == at::kBFloat16 ? compute<c10::BFloat16>(in, *result) : compute<float>(in, *result);
  });
}

}  // extern "C"
