// Products of a few rows with matrices laid out in panels, for `src/nn/packed.rs`.
//
// Such a product takes as long as reading the matrix does. A panel is 32 columns wide and lies in one
// piece, [in, 32], so that it streams from memory; eight rows of results stay in registers meanwhile.
// oneDNN and MKL, packed or not, took 1.2 to 3 times as long for 8 rows on an Intel Xeon without AMX, beside
// other jobs.
// Everything is computed in float32; bfloat16 results are rounded once.

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "guarded.h"
#include "parallel.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GIMLET_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GIMLET_CLONES
#endif

namespace {

// Rows computed at a time, and columns of a panel.
constexpr int64_t kRows = 8, kColumns = 32;
// Fewer bytes than this are not worth waking another thread.
constexpr int64_t kMinBytes = 1 << 18;

using Floats = float __attribute__((vector_size(64)));
using Bits = uint32_t __attribute__((vector_size(64)));
using Panel = float[kRows][kColumns];

// The panel's columns of one row: 32 float32.
struct Wide {
  using Element = float;
  static inline __attribute__((always_inline)) void read(const float* from, Floats columns[2]) {
    std::memcpy(columns, from, 2 * sizeof(Floats));
  }
};

// 32 bfloat16 in the order 0, 16, 1, 17, ..., so that two of them are the halves of 32 bits.
struct Narrow {
  using Element = uint16_t;
  static inline __attribute__((always_inline)) void read(const uint16_t* from, Floats columns[2]) {
    Bits both;
    std::memcpy(&both, from, sizeof(both));
    const Bits halves[2] = {both << 16, both & 0xffff0000u};
    std::memcpy(columns, halves, sizeof(halves));
  }
};

// result = inputs^T panel, for `inputs` [in, 8] and `panel` [in, 32].
template <typename Format>
inline __attribute__((always_inline)) void multiply(
    const typename Format::Element* panel, const float* inputs, int64_t in, Panel result) {
  Floats sums[kRows][2] = {};
  for (int64_t k = 0; k < in; ++k) {
    Floats columns[2];
    Format::read(panel + k * kColumns, columns);
    __builtin_prefetch(panel + k * kColumns + 1024);
    __builtin_prefetch(panel + k * kColumns + 1024 + 64 / sizeof(*panel));
    for (int64_t row = 0; row < kRows; ++row) {
      const float input = inputs[k * kRows + row];
      sums[row][0] += columns[0] * input;
      sums[row][1] += columns[1] * input;
    }
  }
  std::memcpy(result, sums, sizeof(sums));
}

// A row of `length` elements as float32, normalized by its root mean square where there is a scale: in
// float32, rounded to the dtype, then scaled (T5X `layers.py`).
template <typename T>
void read_row(const T* from, const T* scale, int64_t length, float* row) {
  for (int64_t k = 0; k < length; ++k) row[k] = static_cast<float>(from[k]);
  if (scale == nullptr) return;
  float squares[16] = {};
  int64_t k = 0;
  for (; k + 16 <= length; k += 16) {
    for (int64_t i = 0; i < 16; ++i) squares[i] += row[k + i] * row[k + i];
  }
  float sum = 0;
  for (; k < length; ++k) sum += row[k] * row[k];
  for (float square : squares) sum += square;
  const float factor = 1.0f / std::sqrt(sum / static_cast<float>(length) + 1e-6f);
  for (k = 0; k < length; ++k) {
    row[k] = static_cast<float>(T(static_cast<float>(T(row[k] * factor)) * static_cast<float>(scale[k])));
  }
}

// Rows of inputs by groups of eight, transposed: float32 [groups, in, 8], zeros after the last.
template <typename T>
at::Tensor read_inputs(const at::Tensor& inputs, const T* scale) {
  const int64_t rows = inputs.size(0), in = inputs.size(1), groups = (rows + kRows - 1) / kRows;
  at::Tensor grouped = at::zeros({groups, in, kRows}, inputs.options().dtype(at::kFloat));
  at::Tensor row = at::empty({in}, grouped.options());
  const float* values = row.const_data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i) {
    read_row(inputs.const_data_ptr<T>() + i * in, scale, in, row.mutable_data_ptr<float>());
    float* to = grouped.mutable_data_ptr<float>() + i / kRows * in * kRows + i % kRows;
    for (int64_t k = 0; k < in; ++k) to[k * kRows] = values[k];
  }
  return grouped;
}

// Some rows and columns of the result, and what is added to them.
template <typename T>
void write(const Panel sums, int64_t rows, int64_t columns, int64_t stride, const T* residual, T* to) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t at = row * stride + column;
      const T product(sums[row][column]);
      to[at] = residual == nullptr ? product : T(static_cast<float>(product) + static_cast<float>(residual[at]));
    }
  }
}

}  // namespace

GIMLET_CLONES void gimlet_multiply(const float* panel, const float* inputs, int64_t in, float* result) {
  multiply<Wide>(panel, inputs, in, *reinterpret_cast<Panel*>(result));
}

GIMLET_CLONES void gimlet_multiply(const c10::BFloat16* panel, const float* inputs, int64_t in,
                                   float* result) {
  const auto* bits = reinterpret_cast<const uint16_t*>(panel);
  multiply<Narrow>(bits, inputs, in, *reinterpret_cast<Panel*>(result));
}

namespace {

template <typename T>
at::Tensor product(const at::Tensor& inputs, const at::Tensor& panels, int64_t out, const at::Tensor* scale,
                   const at::Tensor* residual) {
  const int64_t rows = inputs.size(0), in = inputs.size(1);
  const at::Tensor grouped = read_inputs<T>(inputs, scale ? scale->const_data_ptr<T>() : nullptr);
  at::Tensor result = at::empty({rows, out}, inputs.options());
  const float* group = grouped.const_data_ptr<float>();
  const T* added = residual ? residual->const_data_ptr<T>() : nullptr;
  T* to = result.mutable_data_ptr<T>();
  const auto* start = panels.const_data_ptr<T>();
  const auto one_panel = [&](int64_t, int64_t index) {
    const T* panel = start + index * in * kColumns;
    const int64_t column = index * kColumns;
    for (int64_t row = 0; row < rows; row += kRows) {
      Panel sums;
      gimlet_multiply(panel, group + row * in, in, sums[0]);
      const int64_t at = row * out + column;
      write(sums, std::min(kRows, rows - row), std::min(kColumns, out - column), out,
            added ? added + at : nullptr, to + at);
    }
  };
  const int64_t panel_bytes = in * kColumns * static_cast<int64_t>(sizeof(T));
  share_out(panels.size(0), std::max<int64_t>(1, kMinBytes / panel_bytes), one_panel);
  return result;
}

void check(const at::Tensor& inputs, const at::Tensor& panels, const at::Tensor* other) {
  TORCH_CHECK(panels.dim() == 3 && panels.size(2) == kColumns && panels.is_contiguous(), "not panels");
  TORCH_CHECK(inputs.dim() == 2 && inputs.size(1) == panels.size(1) && inputs.is_contiguous(),
              "inputs are not [rows, ", panels.size(1), "] in one piece, but ", inputs.sizes());
  TORCH_CHECK(inputs.scalar_type() == panels.scalar_type(), "inputs are ", inputs.scalar_type(),
              ", the kernel is ", panels.scalar_type());
  if (other == nullptr) return;
  TORCH_CHECK(other->scalar_type() == panels.scalar_type() && other->is_contiguous(),
              "scale or residual is ", other->scalar_type(), ", the kernel is ", panels.scalar_type());
}

}  // namespace

extern "C" {

// `result` becomes inputs @ kernel [rows, out] for a kernel in `panels` [panels, in, 32], float32 or bfloat16
// as all tensors are. With a `scale` [in] the inputs are normalized first; a `residual` [rows, out] is added.
// Either may be null. Null, or a message to be freed with `free`.
char* gimlet_packed_product(const at::Tensor* inputs, const at::Tensor* panels, int64_t out,
                            const at::Tensor* scale, const at::Tensor* residual,
                            at::Tensor* result) noexcept {
  return guarded([&] {
    check(*inputs, *panels, scale);
    check(*inputs, *panels, residual);
    TORCH_CHECK(scale == nullptr || scale->numel() == inputs->size(1), "the scale is not [in]");
    TORCH_CHECK(residual == nullptr || residual->numel() == inputs->size(0) * out,
                "the residual is not [rows, out]");
    const bool narrow = panels->scalar_type() == at::kBFloat16;
    *result = narrow ? product<c10::BFloat16>(*inputs, *panels, out, scale, residual)
                     : product<float>(*inputs, *panels, out, scale, residual);
  });
}

}  // extern "C"
