// A step of a beam search besides its model (`src/nn/beam_step.rs`): the best tokens of each hypothesis, and hypotheses
// that take the places of others.

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "guarded.h"
#include "parallel.h"
#include "vectors.h"

namespace {

// The best numbers of a row so far, in descending order, and their columns. Of equals the first is better.
struct Best {
  float* numbers;
  int64_t* columns;
  int64_t count, filled;

  GIMLET_INLINE void take(float number, int64_t column) {
    if (filled == count && !(number > numbers[count - 1])) return;
    filled = std::min(filled + 1, count);
    int64_t place = filled - 1;
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
  for (int64_t column = 0; column < best.count; ++column) best.take(row[column], column);
  for (int64_t first = best.count; first < length; first += kLanes) {
    const int64_t count = std::min(kLanes, length - first);
    if (count == kLanes && !(largest(read(row + first)) > best.numbers[best.count - 1])) continue;
    for (int64_t i = 0; i < count; ++i) best.take(row[first + i], first + i);
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

// Memory of hypotheses in one layer, of which the first `used` bytes hold positions.
struct Places {
  char* first;
  int64_t count, bytes, used;

  void move(const int64_t* origins) const {
    thread_local std::vector<char> room;
    std::vector<int64_t> moved;
    for (int64_t i = 0; i < count; ++i) {
      if (origins[i] != i) moved.push_back(i);
    }
    char* const copies = sized(room, static_cast<int64_t>(moved.size()) * used);
    const auto copy = [&](size_t i) { return copies + static_cast<int64_t>(i) * used; };
    for (size_t i = 0; i < moved.size(); ++i) std::memcpy(copy(i), first + origins[moved[i]] * bytes, used);
    for (size_t i = 0; i < moved.size(); ++i) std::memcpy(first + moved[i] * bytes, copy(i), used);
  }
};

}  // namespace

extern "C" {

// Of each row of `logits`, float32 [rows, columns]: sets `numbers`, float32 [rows, count], and `columns`, int64 of that
// size, to its `count` largest numbers, the largest first, and `sums`, float32 [rows, 1], to the logarithm of the sum of
// all exponentials. Null, or a message to be freed with `free`.
char* gimlet_best_columns(const at::Tensor* logits, int64_t count, at::Tensor* numbers, at::Tensor* columns,
                          at::Tensor* sums) noexcept {
  return guarded([&] {
    TORCH_CHECK(logits->dim() == 2 && logits->scalar_type() == at::kFloat && logits->is_contiguous(),
                "logits are not float32 [rows, columns] in one piece, but ", logits->sizes());
    const int64_t rows = logits->size(0), length = logits->size(1);
    TORCH_CHECK(0 < count && count <= length, "the ", count, " best of ", length, " columns");
    *numbers = at::empty({rows, count}, logits->options());
    *columns = at::empty({rows, count}, logits->options().dtype(at::kLong));
    *sums = at::empty({rows, 1}, logits->options());
    float *const best = numbers->mutable_data_ptr<float>(), *const totals = sums->mutable_data_ptr<float>();
    int64_t* const places = columns->mutable_data_ptr<int64_t>();
    const float* const from = logits->const_data_ptr<float>();
    share_out_awake(rows, /*grain=*/1, [&](int64_t row) {
      Best of{best + row * count, places + row * count, count, 0};
      totals[row] = gimlet_choose(from + row * length, length, of);
    });
  });
}

// Gives each hypothesis of `cache` [layers, hypotheses, positions, ..] the first `length` positions of the one at its
// index in `origins`, int64 [hypotheses]. Null, or a message to be freed with `free`.
char* gimlet_reorder_hypotheses(const at::Tensor* cache, const at::Tensor* origins, int64_t length) noexcept {
  return guarded([&] {
    TORCH_CHECK(cache->dim() > 3 && cache->is_contiguous() && 0 <= length && length <= cache->size(2),
                length, " positions of a cache ", cache->sizes());
    const int64_t layers = cache->size(0), hypotheses = cache->size(1);
    TORCH_CHECK(origins->scalar_type() == at::kLong && origins->numel() == hypotheses && origins->is_contiguous(),
                "origins are not int64 [", hypotheses, "]");
    const int64_t* const from = origins->const_data_ptr<int64_t>();
    for (int64_t i = 0; i < hypotheses; ++i) TORCH_CHECK(0 <= from[i] && from[i] < hypotheses, "no hypothesis ", from[i]);
    const int64_t size = cache->element_size(), bytes = cache->stride(1) * size, used = cache->stride(2) * length * size;
    char* const memory = static_cast<char*>(cache->mutable_data_ptr());
    share_out_awake(layers, /*grain=*/1, [&](int64_t layer) {
      Places{memory + layer * hypotheses * bytes, hypotheses, bytes, used}.move(from);
    });
  });
}

}  // extern "C"
