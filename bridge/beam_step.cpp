// The part of a beam search's step that does not run the model (`src/nn/cpu_decoding/beam_step.rs`): the best tokens of each
// hypothesis, and hypotheses that take the places of others.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "guarded.h"
#include "parallel.h"
#include "vectors.h"

namespace {

// The best numbers of a row so far, in descending order, and their columns. Of equal numbers, the first one is better.
struct Best {
  float* numbers;
  int64_t* columns;
  int64_t count;

  // Puts a number at `place`, of which the former one is dropped, or before it, ahead of all smaller numbers there.
  GIMLET_INLINE void put(float number, int64_t column, int64_t place) {
    for (; place > 0 && number > numbers[place - 1]; --place) {
      numbers[place] = numbers[place - 1];
      columns[place] = columns[place - 1];
    }
    numbers[place] = number;
    columns[place] = column;
  }
};

// Finds the best of `length` numbers, and returns the logarithm of the sum of their exponentials.
GIMLET_INLINE float choose(const float* row, int64_t length, Best& best) {
  const int64_t last = best.count - 1;
  for (int64_t column = 0; column <= last; ++column) best.put(row[column], column, column);
  for (int64_t first = best.count; first < length; first += kLanes) {
    const int64_t count = std::min(kLanes, length - first);
    if (count == kLanes && !(largest(read(row + first)) > best.numbers[last])) continue;
    for (int64_t column = first; column < first + count; ++column) {
      if (row[column] > best.numbers[last]) best.put(row[column], column, last);
    }
  }
  const float most = best.numbers[0];
  Floats total = {};
  for (int64_t first = 0; first < length; first += kLanes) {
    const Floats powers = exponential(read(row + first, length - first) - most);
    total += first_of(powers, length - first, 0.0f);
  }
  return most + std::log(sum(total));
}

}  // namespace

GIMLET_CLONES float gimlet_choose(const float* row, int64_t length, Best& best) { return choose(row, length, best); }

namespace {

// The cache of one layer: `positions` of each hypothesis, of `bytes` bytes each.
struct Layer {
  char* first;
  int64_t stride, positions, bytes;

  // Gives hypotheses `moved` the positions of those in `origins`.
  void move(const std::vector<int64_t>& moved, const int64_t* origins) const {
    thread_local std::vector<char> memory;
    char* const copies = sized(memory, static_cast<int64_t>(moved.size()) * bytes);
    for (int64_t position = 0; position < positions; ++position) {
      char* const here = first + position * bytes;
      char* copy = copies;
      for (const int64_t to : moved) copy = std::copy_n(here + origins[to] * stride, bytes, copy);
      copy = copies;
      for (const int64_t to : moved) std::copy_n(std::exchange(copy, copy + bytes), bytes, here + to * stride);
    }
  }
};

}  // namespace

extern "C" {

// Of each row of `logits`, float32 [rows, columns]: sets `columns`, int64 [rows, count], to its `count` largest ones, the
// largest first, and `log_probs`, float32 of that size, to the logarithms of their probabilities. Null, or a message to be
// freed with `free`.
char* gimlet_best_columns(const at::Tensor* logits, int64_t count, at::Tensor* log_probs,
                          at::Tensor* columns) noexcept {
  return guarded([&] {
    TORCH_CHECK(logits->dim() == 2 && logits->scalar_type() == at::kFloat && logits->is_contiguous() && logits->is_cpu(),
                "logits are not float32 [rows, columns] in one piece, but ", logits->sizes());
    const int64_t rows = logits->size(0), length = logits->size(1);
    TORCH_CHECK(0 < count && count <= length, "the ", count, " best of ", length, " columns");
    *log_probs = at::empty({rows, count}, logits->options());
    *columns = at::empty({rows, count}, logits->options().dtype(at::kLong));
    float* const numbers = log_probs->mutable_data_ptr<float>();
    int64_t* const places = columns->mutable_data_ptr<int64_t>();
    const float* const from = logits->const_data_ptr<float>();
    share_out_awake(rows, /*grain=*/1, [&](int64_t row) {
      Best best{numbers + row * count, places + row * count, count};
      const float log_sum = gimlet_choose(from + row * length, length, best);
      for (int64_t i = 0; i < count; ++i) best.numbers[i] -= log_sum;
    });
  });
}

// Gives each hypothesis of `cache` [layers, hypotheses, positions, ..] the first `length` positions of the one at its
// index in `origins`, int64 [hypotheses]. Null, or a message to be freed with `free`.
char* gimlet_reorder_hypotheses(const at::Tensor* cache, const at::Tensor* origins, int64_t length) noexcept {
  return guarded([&] {
    TORCH_CHECK(cache->dim() > 3 && cache->is_contiguous() && cache->is_cpu() && 0 <= length && length <= cache->size(2),
                length, " positions of a cache ", cache->sizes());
    const int64_t layers = cache->size(0), hypotheses = cache->size(1);
    TORCH_CHECK(origins->scalar_type() == at::kLong && origins->numel() == hypotheses && origins->is_contiguous() &&
                    origins->is_cpu(),
                "origins are not int64 [", hypotheses, "]");
    const int64_t* const from = origins->const_data_ptr<int64_t>();
    std::vector<int64_t> moved;
    for (int64_t i = 0; i < hypotheses; ++i) {
      TORCH_CHECK(0 <= from[i] && from[i] < hypotheses, "no hypothesis ", from[i]);
      if (from[i] != i) moved.push_back(i);
    }
    if (moved.empty()) return;
    const auto bytes = [&](int64_t axis) { return cache->stride(axis) * static_cast<int64_t>(cache->element_size()); };
    char* const memory = static_cast<char*>(cache->mutable_data_ptr());
    share_out_awake(layers, /*grain=*/1, [&](int64_t layer) {
      Layer{memory + layer * bytes(0), bytes(1), length, bytes(2)}.move(moved, from);
    });
  });
}

}  // extern "C"
