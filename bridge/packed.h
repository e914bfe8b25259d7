// A product with a kernel that was laid out once, and what is done on the way: the norm of its inputs before, and the
// activation or the sum with a residual after it.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "factors.h"
#include "panels.h"
#include "parallel.h"

inline int64_t quotient_up(int64_t of, int64_t by) { return (of + by - 1) / by; }

template <typename T>
struct Product {
  const T* inputs;    // [rows, in]
  const T* panels;    // [.., in, 32], or tiles [.., in, 64] or [.., in / 2, 64, 2]
  const T* scale;     // [in], or null: the inputs are normalized by their root mean square first
  const T* residual;  // as the result, or null: it is added
  T* result;          // [rows / length, out / width, length, width]
  int64_t rows, in, out, length, width;
  float epsilon;  // is added to the mean square
  bool gated;  // a panel's first half is of the gate, its second half of what is multiplied by the gate's GELU

  // Number of columns of the result from one panel.
  int64_t columns() const { return gated ? kLanes : kColumns; }
  int64_t num_panels() const { return quotient_up(out, columns()); }
  int64_t offset_of_row(int64_t row) const { return row / length * length * out + row % length * width; }
  int64_t offset_of_column(int64_t column) const { return column / width * length * width + column % width; }
};

// Where the two halves of a panel's columns lie in the results, and how many columns are left from each of them on.
struct PanelColumns {
  int64_t column, at[2];

  template <typename T>
  GIMLET_INLINE PanelColumns(const Product<T>& product, int64_t index)
      : column(index * product.columns()),
        at{product.offset_of_column(column), product.offset_of_column(column + kLanes)} {}
};

// Converts a row, and normalizes it if there is a scale: in float32, rounded to the dtype, then scaled (T5X
// `layers.py`).
template <typename T, typename To>
GIMLET_INLINE void convert_row(const T* from, const T* scale, float epsilon, int64_t length, To* row) {
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
template <typename T, typename To>
GIMLET_INLINE void convert_rows(const Product<T>& product, int64_t first, int64_t count, To* to) {
  for (int64_t i = 0; i < count; ++i) {
    convert_row(product.inputs + (first + i) * product.in, product.scale, product.epsilon, product.in, to + i * product.in);
  }
}

// Writes a row of a panel's sums to the result.
template <typename T>
GIMLET_INLINE void finish(const Product<T>& product, const Floats sums[2], int64_t row, const PanelColumns& columns) {
  if (product.gated) {
    const Floats gate = rounded<T>(gelu(rounded<T>(sums[0])));
    write(gate * rounded<T>(sums[1]), product.result + row + columns.at[0], product.out - columns.column);
    return;
  }
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t left = product.out - columns.column - half * kLanes, at = row + columns.at[half];
    if (left <= 0) return;
    Floats values = rounded<T>(sums[half]);
    if (product.residual != nullptr) values += read(product.residual + at, left);
    write(values, product.result + at, left);
  }
}

// `convert_rows`, compiled for several CPUs.
void gimlet_convert_rows(const Product<float>& product, int64_t first, int64_t count, float* to);
void gimlet_convert_rows(const Product<c10::BFloat16>& product, int64_t first, int64_t count, float* to);
void gimlet_convert_rows(const Product<c10::BFloat16>& product, int64_t first, int64_t count, c10::BFloat16* to);

// Most rows of a block.
constexpr int64_t kMostRows = 128;

// The inputs of some rows in the format in which they are multiplied, and where their results begin.
template <typename C>
struct Block {
  const C* rows;
  int64_t count, offsets[kMostRows];
};

// `room` is memory for rows that cannot be multiplied in place, since they are normalized, converted, or not a multiple of
// `step`, to which memory is padded.
template <typename T, typename C>
Block<C> prepare(const Product<T>& product, int64_t first, int64_t count, int64_t step, std::vector<C>& room) {
  Block<C> block{nullptr, count, {}};
  for (int64_t i = 0; i < count; ++i) block.offsets[i] = product.offset_of_row(first + i);
  if constexpr (std::is_same_v<T, C>) {
    if (product.scale == nullptr && count % step == 0) {
      block.rows = product.inputs + first * product.in;
      return block;
    }
  }
  C* const to = sized(room, rounded_up(count, step) * product.in);
  gimlet_convert_rows(product, first, count, to);
  block.rows = to;
  return block;
}

// Columns of a tile: those of two panels.
constexpr int64_t kTileColumns = 2 * kColumns;

// Computes a product with a kernel in tiles; `pairs`: they are [in / 2, 64, 2] instead of [in, 64].
void compute_by_tiles(const Product<float>& product, bool pairs);
void compute_by_tiles(const Product<c10::BFloat16>& product, bool pairs);
