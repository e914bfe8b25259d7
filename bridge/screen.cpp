// The largest column of each row of a product, found without reading all of the kernel.
//
// A step of greedy decoding needs only the most probable token, and reading the kernel of the logits takes a third of
// the step. A screen has the kernel's numbers in 8 bits and, for each column, a bound on what that loses: by the
// inequality of Cauchy and Schwarz a column of the product is wrong by at most the length of the row of inputs times
// the length of the column's error. Panels in which no column can be the largest are not read; the rest, some percent
// of them, are multiplied in float32. The result is that of the whole product.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "guarded.h"
#include "panels.h"
#include "parallel.h"

extern "C" {

struct GimletScreen {
  const at::Tensor *narrow, *steps, *radii;
};

}  // extern "C"

namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kMostSteps = 127.0f;
// Fewer panels than this are not worth waking another thread.
constexpr int64_t kMinPanels = 8;

struct Screen {
  const float* panels;   // [panels, in, 32]
  const int8_t* narrow;  // the same in steps, rounded, in the order of `read_columns`
  const float* steps;    // [panels, 32]: the size of a column's steps
  const float* radii;    // [panels, 32]: the length of a column's error
  const float* inputs;   // [rows, in]
  int64_t rows, in, out, num_panels;
  std::vector<float> lengths;  // of the inputs' rows
};

// What is known of the largest column of a row and a panel.
struct Range {
  float least, most;
};

struct Best {
  float value;
  int64_t column;
};

GIMLET_INLINE Floats larger(const Floats& one, const Floats& other) { return one > other ? one : other; }

// Rounds a panel to steps, and writes the size of the steps and the length of what is lost in each column.
GIMLET_INLINE void narrow_panel(const float* panel, int64_t in, int8_t* narrow, float* steps, float* radii) {
  const Floats magic = Floats{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to integers
  Floats step[2] = {}, lost[2] = {}, whole[2] = {};
  for (int64_t k = 0; k < in; ++k) {
    for (int64_t half = 0; half < 2; ++half) {
      const Floats values = read(panel + k * kColumns + half * kLanes);
      step[half] = larger(step[half], (values < 0.0f ? -values : values) / kMostSteps);
    }
  }
  for (int64_t k = 0; k < in; k += 2) {
    Floats counts[2][2];
    for (int64_t i = 0; i < 4; ++i) {
      const Floats values = read(panel + k * kColumns + i * kLanes), size = step[i % 2];
      const Floats count = size > 0.0f ? (values / size + magic) - magic : Floats{};
      const Floats rest = values - count * size;
      lost[i % 2] += rest * rest;
      whole[i % 2] += values * values;
      counts[i / 2][i % 2] = count;
    }
    write_columns(counts, narrow + k * kColumns);
  }
  // Both products are summed in float32: each sum is wrong by at most `in` roundings of 2^-24 of the column's length.
  const float roundings = 4.0f * static_cast<float>(in) * 0x1p-24f;
  for (int64_t i = 0; i < kColumns; ++i) {
    const int64_t half = i / kLanes, lane = i % kLanes;
    steps[i] = step[half][lane];
    radii[i] = 1.001f * (std::sqrt(lost[half][lane]) + roundings * std::sqrt(whole[half][lane]));
  }
}

// Bounds the largest column of a panel, for every row.
GIMLET_INLINE void screen_panel(const Screen& screen, int64_t index, Range* ranges) {
  const int8_t* panel = screen.narrow + index * screen.in * kColumns;
  for (int64_t first = 0; first < screen.rows; first += kRows) {
    const RowPointers rows(screen.inputs + first * screen.in, screen.in, screen.rows - first);
    Sums sums;
    first == 0 ? multiply<Ahead::kAsk>(panel, rows.of, screen.in, sums)
               : multiply<Ahead::kHave>(panel, rows.of, screen.in, sums);
    for (int64_t row = first; row < std::min(first + kRows, screen.rows); ++row) {
      Floats least = Floats{} + kLowest, most = least;
      for (int64_t half = 0; half < 2; ++half) {
        const int64_t column = index * kColumns + half * kLanes, left = screen.out - column;
        const Floats values = sums.of[row - first][half] * read(screen.steps + column);
        const Floats radius = read(screen.radii + column) * screen.lengths[row];
        least = larger(least, first_of(values - radius, left, kLowest));
        most = larger(most, first_of(values + radius, left, kLowest));
      }
      ranges[row * screen.num_panels + index] = {largest(least), largest(most)};
    }
  }
}

// Computes a panel, and writes the first of its largest columns for every row.
GIMLET_INLINE void best_of_panel(const Screen& screen, int64_t index, Best* best) {
  const float* panel = screen.panels + index * screen.in * kColumns;
  for (int64_t first = 0; first < screen.rows; first += kRows) {
    Sums sums;
    const RowPointers rows(screen.inputs + first * screen.in, screen.in, screen.rows - first);
    multiply<Ahead::kAsk>(panel, rows.of, screen.in, sums);
    for (int64_t row = first; row < std::min(first + kRows, screen.rows); ++row) {
      float values[kColumns];
      write(sums.of[row - first][0], values);
      write(sums.of[row - first][1], values + kLanes);
      float* const end = values + std::min(kColumns, screen.out - index * kColumns);
      const float* found = std::max_element(values, end);
      best[row] = {*found, index * kColumns + (found - values)};
    }
  }
}

}  // namespace

GIMLET_CLONES void gimlet_narrow_panel(const float* panel, int64_t in, int8_t* narrow, float* steps, float* radii) {
  narrow_panel(panel, in, narrow, steps, radii);
}

GIMLET_CLONES void gimlet_screen_panel(const Screen& screen, int64_t index, Range* ranges) {
  screen_panel(screen, index, ranges);
}

GIMLET_CLONES void gimlet_best_of_panel(const Screen& screen, int64_t index, Best* best) {
  best_of_panel(screen, index, best);
}

namespace {

// Panels in which a column may be the largest of a row, in order. Of numbers that are none nothing is known.
std::vector<int64_t> candidates(const Screen& screen, const std::vector<Range>& ranges) {
  std::vector<char> open(screen.num_panels);
  for (int64_t row = 0; row < screen.rows; ++row) {
    const Range* of_row = ranges.data() + row * screen.num_panels;
    float least = kLowest;
    for (int64_t i = 0; i < screen.num_panels; ++i) least = std::max(least, of_row[i].least);
    for (int64_t i = 0; i < screen.num_panels; ++i) open[i] |= !(of_row[i].most < least);
  }
  std::vector<int64_t> found;
  for (int64_t i = 0; i < screen.num_panels; ++i) {
    if (open[i]) found.push_back(i);
  }
  return found;
}

void find_largest(const Screen& screen, int64_t* columns) {
  std::vector<Range> ranges(screen.rows * screen.num_panels);
  share_out_awake(screen.num_panels, kMinPanels,
                  [&](int64_t index) { gimlet_screen_panel(screen, index, ranges.data()); });
  const std::vector<int64_t> open = candidates(screen, ranges);
  std::vector<Best> best(open.size() * screen.rows);
  share_out_awake(static_cast<int64_t>(open.size()), kMinPanels, [&](int64_t task) {
    gimlet_best_of_panel(screen, open[task], best.data() + task * screen.rows);
  });
  for (int64_t row = 0; row < screen.rows; ++row) {
    Best first = best[row];
    for (size_t task = 1; task < open.size(); ++task) {
      const Best& other = best[task * screen.rows + row];
      if (other.value > first.value) first = other;
    }
    columns[row] = first.column;
  }
}

std::vector<float> lengths_of_rows(const at::Tensor& inputs) {
  const at::Tensor lengths = inputs.norm(2, /*dim=*/1);
  const float* first = lengths.const_data_ptr<float>();
  return {first, first + lengths.numel()};
}

}  // namespace

extern "C" {

// Makes the screen of a kernel in `panels`, float32 [panels, in, 32]. Null, or a message to be freed with `free`.
char* gimlet_screen_new(const at::Tensor* panels, at::Tensor* narrow, at::Tensor* steps, at::Tensor* radii) noexcept {
  return guarded([&] {
    TORCH_CHECK(panels->dim() == 3 && panels->size(2) == kColumns && panels->is_contiguous() &&
                    panels->scalar_type() == at::kFloat,
                "not float32 panels");
    TORCH_CHECK(panels->size(1) % kAtOnce<int8_t> == 0, "panels of an odd number of rows have no screen");
    const int64_t count = panels->size(0), in = panels->size(1);
    *narrow = at::empty(panels->sizes(), panels->options().dtype(at::kChar));
    *steps = at::empty({count, kColumns}, panels->options());
    *radii = at::empty({count, kColumns}, panels->options());
    const float* from = panels->const_data_ptr<float>();
    int8_t* to = narrow->mutable_data_ptr<int8_t>();
    float *sizes = steps->mutable_data_ptr<float>(), *lost = radii->mutable_data_ptr<float>();
    share_out_awake(count, kMinPanels, [&](int64_t index) {
      const int64_t at = index * in * kColumns, column = index * kColumns;
      gimlet_narrow_panel(from + at, in, to + at, sizes + column, lost + column);
    });
  });
}

// Sets `result`, int64 [rows], to the first of the largest columns of inputs @ kernel for each row of `inputs`, float32
// [rows, in], for a kernel with `out` columns in `panels` and their screen. Null, or a message to be freed with `free`.
char* gimlet_screen_largest(const at::Tensor* inputs, const at::Tensor* panels, GimletScreen of, int64_t out,
                            at::Tensor* result) noexcept {
  return guarded([&] {
    TORCH_CHECK(inputs->dim() == 2 && inputs->size(1) == panels->size(1) && inputs->is_contiguous() &&
                    inputs->scalar_type() == at::kFloat,
                "inputs are not float32 [rows, ", panels->size(1), "] in one piece, but ", inputs->sizes());
    TORCH_CHECK(of.narrow->sizes() == panels->sizes() && out > 0 && (out - 1) / kColumns + 1 == panels->size(0),
                "not the screen of ", out, " columns");
    *result = at::empty({inputs->size(0)}, inputs->options().dtype(at::kLong));
    const Screen screen{panels->const_data_ptr<float>(), of.narrow->const_data_ptr<int8_t>(),
                        of.steps->const_data_ptr<float>(), of.radii->const_data_ptr<float>(),
                        inputs->const_data_ptr<float>(), inputs->size(0), inputs->size(1), out, panels->size(0),
                        lengths_of_rows(*inputs)};
    find_largest(screen, result->mutable_data_ptr<int64_t>());
  });
}

}  // extern "C"
