// Products of small matrices that stay in a core's cache: a first factor row by row, and a second factor laid out
// for oneDNN's kernels, which libtorch exports.
//
// Both are float32, or both bfloat16 with sums in float32. Extents are padded with zeros so that no kernel has a
// remainder.

#pragma once

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "vectors.h"

// Columns that a product reads together. oneDNN wants this distance between pairs of bfloat16 rows.
constexpr int64_t kPanel = 64;

// The number of columns, padded to a panel, or to part of one.
constexpr int64_t padded(int64_t columns) { return rounded_up(columns, columns <= kPanel ? kLanes : kPanel); }

// A second factor, [depth, columns], both padded. In float32 row by row. In bfloat16 each panel is [depth / 2, 64, 2]:
// numbers of two rows lie side by side.
template <typename C>
struct Second {
  static constexpr bool kPairs = std::is_same_v<C, c10::BFloat16>;

  C* data;
  int64_t depth, columns;
  // Of what is written.
  float scale = 1.0f;
  // Where what rounding leaves out is written, in the same layout; null if nowhere.
  C* rest = nullptr;

  GIMLET_INLINE int64_t stride() const { return kPairs ? std::min(columns, kPanel) : columns; }

  // The numbers from row `k` on, even for pairs, and column `n`, which begins a panel.
  GIMLET_INLINE C* at(int64_t k, int64_t n) const {
    return kPairs ? data + n * depth + k * stride() : data + k * columns + n;
  }

  // Writes sixteen columns of rows `k` and `k + 1`, which is even.
  GIMLET_INLINE void write_two(int64_t k, int64_t n, const Floats& upper, const Floats& lower) const {
    const Floats first = upper * scale, second = lower * scale;
    if constexpr (kPairs) {
      C* const to = at(k, n / kPanel * kPanel) + n % kPanel * 2;
      const auto write_pairs = [](const Floats& first, const Floats& second, C* to) __attribute__((always_inline)) {
        const Bits pairs = (narrow_bits(first) >> 16) | narrow_bits(second);
        std::memcpy(to, &pairs, sizeof(pairs));
      };
      write_pairs(first, second, to);
      if (rest != nullptr) write_pairs(first - rounded<C>(first), second - rounded<C>(second), rest + (to - data));
    } else {
      write(first, at(k, n));
      write(second, at(k + 1, n));
    }
  }
};

// to (+)= first second, for `rows` rows of `depth` numbers, the rows of `second` from `from` on, and some of its columns.
template <typename C>
void multiply(const C* first, int64_t stride, int64_t rows, const Second<C>& second, int64_t from, int64_t depth,
              int64_t column, int64_t columns, bool add, float* to, int64_t to_stride) {
  using at::native::cpublas::brgemm;
  const int64_t step = Second<C>::kPairs ? second.stride() : columns;
  for (int64_t n = 0; n < columns; n += step) {
    brgemm(rows, step, depth, stride, second.stride(), to_stride, add, first, second.at(from, column + n), to + n,
           Second<C>::kPairs);
  }
}

// Sixteen rows of sixteen numbers.
struct Tile {
  Floats rows[kLanes];

  // Reads at most so many rows and columns; the rest are zeros.
  template <typename T>
  GIMLET_INLINE void load(const T* from, int64_t stride, int64_t count, int64_t columns) {
    for (int64_t row = 0; row < kLanes; ++row) {
      rows[row] = row < count ? read(from + row * stride, columns) : Floats{};
    }
  }

  GIMLET_INLINE void transpose() {
    exchange<8>();
    exchange<4>();
    exchange<2>();
    exchange<1>();
  }

 private:
  // Exchanges the blocks of `half` rows and columns that lie beside the diagonal of blocks twice as large.
  template <int64_t half>
  GIMLET_INLINE void exchange() {
    Bits left, right;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      left[lane] = lane & half ? lane - half + kLanes : lane;
      right[lane] = lane & half ? lane + kLanes : lane + half;
    }
    for (int64_t row = 0; row < kLanes; ++row) {
      if (row & half) continue;
      const Floats first = rows[row], second = rows[row + half];
      rows[row] = __builtin_shuffle(first, second, left);
      rows[row + half] = __builtin_shuffle(first, second, right);
    }
  }
};

// Rows of a tensor: `stride` numbers apart.
template <typename T>
struct Rows {
  T* data;
  int64_t stride, count, width;
};

// The rows become those of a first factor, [.., padded(width)].
template <typename T, typename C>
GIMLET_INLINE void lay_out_first(const Rows<const T>& rows, C* to) {
  const int64_t columns = padded(rows.width);
  for (int64_t row = 0; row < rows.count; ++row) {
    const T* from = rows.data + row * rows.stride;
    for (int64_t i = 0; i < columns; i += kLanes) write(read(from + i, rows.width - i), to + row * columns + i);
  }
}

// The rows become the columns of a first factor, [padded(width), stride].
template <typename T, typename C>
GIMLET_INLINE void lay_out_first_transposed(const Rows<const T>& rows, C* to, int64_t stride) {
  Tile tile;
  for (int64_t row = 0; row < stride; row += kLanes) {
    for (int64_t i = 0; i < padded(rows.width); i += kLanes) {
      tile.load(rows.data + row * rows.stride + i, rows.stride, rows.count - row, rows.width - i);
      tile.transpose();
      for (int64_t k = 0; k < kLanes; ++k) write(tile.rows[k], to + (i + k) * stride + row);
    }
  }
}

// The rows become those of a second factor, each times its number in `factors`, if there are any.
template <typename T, typename C>
GIMLET_INLINE void lay_out_second(const Rows<const T>& rows, const float* factors, const Second<C>& to) {
  for (int64_t k = 0; k < to.depth; k += 2) {
    for (int64_t i = 0; i < to.columns; i += kLanes) {
      Floats two[2] = {};
      for (int64_t row = k; row < std::min(k + 2, rows.count); ++row) {
        two[row - k] = read(rows.data + row * rows.stride + i, rows.width - i);
        if (factors != nullptr) two[row - k] *= factors[row];
      }
      to.write_two(k, i, two[0], two[1]);
    }
  }
}

// The rows become the columns of a second factor, each times its number in `factors`, if there are any.
template <typename T, typename C>
GIMLET_INLINE void lay_out_second_transposed(const Rows<const T>& rows, const float* factors, const Second<C>& to) {
  Tile tile;
  for (int64_t row = 0; row < to.columns; row += kLanes) {
    for (int64_t i = 0; i < to.depth; i += kLanes) {
      tile.load(rows.data + row * rows.stride + i, rows.stride, rows.count - row, rows.width - i);
      for (int64_t k = 0; factors != nullptr && k < std::min(kLanes, rows.count - row); ++k) {
        tile.rows[k] = tile.rows[k] * factors[row + k];
      }
      tile.transpose();
      for (int64_t k = 0; k < kLanes; k += 2) to.write_two(i + k, row, tile.rows[k], tile.rows[k + 1]);
    }
  }
}

// The columns of [padded(width), stride] become rows, each times its number in `factors`, if there are any.
template <typename T>
GIMLET_INLINE void write_transposed(const float* from, int64_t stride, const float* factors, const Rows<T>& rows) {
  Tile tile;
  for (int64_t row = 0; row < rows.count; row += kLanes) {
    for (int64_t i = 0; i < rows.width; i += kLanes) {
      tile.load(from + i * stride + row, stride, kLanes, kLanes);
      tile.transpose();
      for (int64_t k = 0; k < std::min(kLanes, rows.count - row); ++k) {
        const Floats values = factors != nullptr ? tile.rows[k] * factors[row + k] : tile.rows[k];
        write(values, rows.data + (row + k) * rows.stride + i, rows.width - i);
      }
    }
  }
}
