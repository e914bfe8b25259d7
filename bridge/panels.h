// Products of a few rows with a panel, which is 32 columns of a matrix, [depth, 32]. All sums stay in registers.
//
// AVX-512 has registers for all sums. Otherwise, a core waits for data that are not in its caches;
// `benches/products.rs` measures the speed of both.

#pragma once

#include "vectors.h"

// Rows multiplied at a time, and columns of a panel.
constexpr int64_t kRows = 8, kColumns = 2 * kLanes;

struct Sums {
  Floats of[kRows][2] = {};
};

// Rows of a panel that are read at once.
template <typename T>
constexpr int64_t kAtOnce = 1;
template <>
constexpr int64_t kAtOnce<int8_t> = 2;

GIMLET_INLINE void read_columns(const float* from, Floats (*columns)[2]) {
  columns[0][0] = read(from);
  columns[0][1] = read(from + kLanes);
}

// Bfloat16 columns lie in the order 0, 16, 1, 17, ..., so that two of them are the halves of 32 bits.
GIMLET_INLINE void read_columns(const c10::BFloat16* from, Floats (*columns)[2]) {
  Bits both;
  std::memcpy(&both, from, sizeof(both));
  columns[0][0] = floats(both << 16);
  columns[0][1] = floats(both & 0xffff0000u);
}

// Whole numbers of two rows: columns 0 and 16 of both are the quarters of 32 bits, then 1 and 17.
GIMLET_INLINE void read_columns(const int8_t* from, Floats (*columns)[2]) {
  Bits four;
  std::memcpy(&four, from, sizeof(four));
  for (uint32_t i = 0; i < 4; ++i) {
    columns[i / 2][i % 2] = __builtin_convertvector(reinterpret_cast<Ints>(four << (24 - 8 * i)) >> 24, Floats);
  }
}

GIMLET_INLINE void write_columns(const Floats (*columns)[2], int8_t* to) {
  Bits four = {};
  for (uint32_t i = 0; i < 4; ++i) {
    const Ints whole = __builtin_convertvector(columns[i / 2][i % 2], Ints);
    four |= (reinterpret_cast<Bits>(whole) & 0xffu) << (8 * i);
  }
  std::memcpy(to, &four, sizeof(four));
}

// Whether the data after a panel's rows are prefetched while these are read, for memory that is
// read only once.
enum class Ahead { kAsk, kHave };

// sums += rows panel, for rows of `depth` numbers each, an even number of them if the panel's are whole.
template <Ahead ahead, typename T>
GIMLET_INLINE void multiply(const T* panel, const float* const rows[kRows], int64_t depth, Sums& sums) {
  Sums local = sums;
  for (int64_t k = 0; k < depth; k += kAtOnce<T>) {
    Floats columns[kAtOnce<T>][2];
    read_columns(panel + k * kColumns, columns);
    if constexpr (ahead == Ahead::kAsk) ask_ahead(panel + k * kColumns, sizeof(*panel) * kColumns * kAtOnce<T>);
    for (int64_t i = 0; i < kAtOnce<T>; ++i) {
      for (int64_t row = 0; row < kRows; ++row) {
        local.of[row][0] += columns[i][0] * rows[row][k + i];
        local.of[row][1] += columns[i][1] * rows[row][k + i];
      }
    }
  }
  sums = local;
}

// The rows that a product of `kRows` rows reads: those from `first` on, with the last of them
// repeated if fewer are left.
struct RowPointers {
  const float* of[kRows];

  GIMLET_INLINE RowPointers(const float* first, int64_t stride, int64_t left) {
    for (int64_t row = 0; row < kRows; ++row) of[row] = first + std::min(row, left - 1) * stride;
  }
};
