// Attention of whole sequences to themselves, without gradients (`src/nn/sequence_attention.rs`).
//
// For each head, keys and values are laid out in panels once, then a few queries at a time compute
// their scores, weights and averages in a core's caches. Everything is computed in float32.

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "guarded.h"
#include "panels.h"
#include "parallel.h"

namespace {

// Number of queries at a time.
constexpr int64_t kQueries = 2 * kRows;

template <typename T>
struct Sequences {
  const T* projected;     // [rows, 3, heads, width]: queries, keys and values
  const float* distances;  // [heads, 2 * longest - 1]: what is added for each distance of a key from a query
  const float* mask;      // [rows]: what is added for each key
  T* result;              // [rows, heads, width]
  int64_t heads, width, longest;

  int64_t joined() const { return heads * width; }
  // Query, key or value of a row's head.
  const T* part(int64_t row, int64_t index, int64_t head) const {
    return projected + (row * 3 + index) * joined() + head * width;
  }
  // The addends of a query's scores, from its first key on.
  const float* distances_of(int64_t head, int64_t query) const {
    return distances + head * (2 * longest - 1) + longest - 1 - query;
  }
};

// The memory of one thread, for one head of one sequence.
struct Room {
  std::vector<float> keys;     // [panels, width, 32]
  std::vector<float> values;   // [panels, length, 32]
  std::vector<float> row;      // [width and more]
  std::vector<float> queries;  // [16, width]
  std::vector<float> scores;   // [16, length up to a multiple of 32]
};

constexpr int64_t panels_of(int64_t columns) { return (columns + kColumns - 1) / kColumns; }

template <typename T>
GIMLET_INLINE void lay_out(const Sequences<T>& in, int64_t first, int64_t length, int64_t head, Room& room) {
  const int64_t width = in.width;
  // Old values of other sequences, in columns that this one does not fill, have no effect.
  room.keys.resize(panels_of(length) * width * kColumns);
  room.values.resize(panels_of(width) * length * kColumns);
  room.row.resize(width + kLanes);
  for (int64_t k = 0; k < length; ++k) {
    const T* key = in.part(first + k, 1, head);
    const T* value = in.part(first + k, 2, head);
    for (int64_t i = 0; i < width; i += kLanes) {
      write(read(key + i, width - i), room.row.data() + i);
      write(read(value + i, width - i), room.values.data() + (i / kColumns * length + k) * kColumns + i % kColumns);
    }
    float* column = room.keys.data() + k / kColumns * width * kColumns + k % kColumns;
    for (int64_t i = 0; i < width; ++i) column[i * kColumns] = room.row[i];
  }
}

// Scores of `count` queries from `first` on, whose sequence begins at `start`.
template <typename T>
GIMLET_INLINE void score(const Sequences<T>& in, int64_t start, int64_t length, int64_t head, int64_t first,
                         int64_t count, Room& room) {
  const int64_t width = in.width, stride = panels_of(length) * kColumns;
  for (int64_t panel = 0; panel < panels_of(length); ++panel) {
    for (int64_t row = 0; row < count; row += kRows) {
      Sums sums;
      const RowPointers rows(room.queries.data() + row * width, width, count - row);
      multiply<Ahead::kHave>(room.keys.data() + panel * width * kColumns, rows.of, width, sums);
      for (int64_t i = 0; i < std::min(kRows, count - row); ++i) {
        const float* distances = in.distances_of(head, first + row + i);
        for (int64_t half = 0; half < 2; ++half) {
          const int64_t k = panel * kColumns + half * kLanes;
          float* to = room.scores.data() + (row + i) * stride + k;
          const int64_t left = std::max<int64_t>(0, length - k);
          write(sums.of[i][half] + read(distances + k, left) + read(in.mask + start + k, left), to);
          for (int64_t none = left; none < kLanes; ++none) to[none] = std::numeric_limits<float>::lowest();
        }
      }
    }
  }
}

template <typename T>
GIMLET_INLINE void average(const Sequences<T>& in, int64_t start, int64_t length, int64_t head, int64_t first,
                           int64_t count, Room& room) {
  const int64_t stride = panels_of(length) * kColumns;
  float totals[kQueries];
  for (int64_t row = 0; row < count; ++row) totals[row] = weigh(room.scores.data() + row * stride, stride);
  for (int64_t panel = 0; panel < panels_of(in.width); ++panel) {
    for (int64_t row = 0; row < count; row += kRows) {
      Sums sums;
      const RowPointers rows(room.scores.data() + row * stride, stride, count - row);
      multiply<Ahead::kHave>(room.values.data() + panel * length * kColumns, rows.of, length, sums);
      for (int64_t i = 0; i < std::min(kRows, count - row); ++i) {
        T* to = in.result + (start + first + row + i) * in.joined() + head * in.width;
        for (int64_t half = 0; half < 2; ++half) {
          const int64_t column = panel * kColumns + half * kLanes;
          if (column < in.width) write(sums.of[i][half] / totals[row + i], to + column, in.width - column);
        }
      }
    }
  }
}

template <typename T>
GIMLET_INLINE void attend(const Sequences<T>& in, int64_t start, int64_t length, int64_t head, Room& room) {
  lay_out(in, start, length, head, room);
  room.queries.resize(kQueries * in.width);
  room.scores.resize(kQueries * panels_of(length) * kColumns);
  for (int64_t first = 0; first < length; first += kQueries) {
    const int64_t count = std::min(kQueries, length - first);
    for (int64_t row = 0; row < count; ++row) {
      const T* query = in.part(start + first + row, 0, head);
      std::copy_n(query, in.width, room.queries.data() + row * in.width);
    }
    score(in, start, length, head, first, count, room);
    average(in, start, length, head, first, count, room);
  }
}

}  // namespace

GIMLET_CLONES void gimlet_attend_sequence(const Sequences<float>& in, int64_t start, int64_t length,
                                          int64_t head, Room& room) {
  attend(in, start, length, head, room);
}

GIMLET_CLONES void gimlet_attend_sequence(const Sequences<c10::BFloat16>& in, int64_t start, int64_t length,
                                          int64_t head, Room& room) {
  attend(in, start, length, head, room);
}

namespace {

template <typename T>
void attention(const at::Tensor& projected, const int64_t* lengths, int64_t count, const at::Tensor& distances,
               const at::Tensor& mask, const at::Tensor& result) {
  const Sequences<T> in{projected.const_data_ptr<T>(), distances.const_data_ptr<float>(),
                        mask.const_data_ptr<float>(), result.mutable_data_ptr<T>(),
                        projected.size(2), projected.size(3), (distances.size(1) + 1) / 2};
  std::vector<int64_t> starts(count + 1, 0);
  for (int64_t i = 0; i < count; ++i) starts[i + 1] = starts[i] + lengths[i];
  share_out_awake(count * in.heads, /*grain=*/1, [&](int64_t task) {
    thread_local Room room;
    const int64_t sequence = task % count, head = task / count;
    gimlet_attend_sequence(in, starts[sequence], lengths[sequence], head, room);
  });
}

}  // namespace

extern "C" {

// `result` [rows, heads, width] becomes the averages of the values of `projected` [rows, 3, heads, width], float32
// or bfloat16, which are queries, keys and values of sequences of `lengths` one after the other. The weights
// are the softmax of products of queries and keys, plus `distances` [heads, 2 * longest - 1] of a key from a query,
// -(longest - 1) first, and `mask` [rows] of keys, both float32. Null, or a message to be freed with `free`.
char* gimlet_sequence_attention(const at::Tensor* projected, const int64_t* lengths, int64_t count,
                                const at::Tensor* distances, const at::Tensor* mask,
                                at::Tensor* result) noexcept {
  return guarded([&] {
    TORCH_CHECK(projected->dim() == 4 && projected->size(1) == 3 && projected->is_contiguous(),
                "queries, keys and values are not [rows, 3, heads, width] in one piece, but ", projected->sizes());
    const int64_t rows = projected->size(0), heads = projected->size(2);
    TORCH_CHECK(distances->dim() == 2 && distances->size(0) == heads && distances->is_contiguous() &&
                    distances->scalar_type() == at::kFloat,
                "distances are not float32 [", heads, ", distances], but ", distances->sizes());
    TORCH_CHECK(mask->numel() == rows && mask->is_contiguous() && mask->scalar_type() == at::kFloat,
                "the mask is not float32 [", rows, "]");
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      TORCH_CHECK(lengths[i] > 0 && 2 * lengths[i] - 1 <= distances->size(1), "a sequence of ", lengths[i]);
      sum += lengths[i];
    }
    TORCH_CHECK(sum == rows, "sequences of ", sum, " rows in all, but there are ", rows);
    *result = at::empty({rows, heads, projected->size(3)}, projected->options());
    projected->scalar_type() == at::kBFloat16
        ? attention<c10::BFloat16>(*projected, lengths, count, *distances, *mask, *result)
        : attention<float>(*projected, lengths, count, *distances, *mask, *result);
  });
}

}  // extern "C"
