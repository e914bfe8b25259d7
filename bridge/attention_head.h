// One head of attention on the CPU, forward and backward: a block of queries at a time, whose scores stay in a core's
// cache. Keys that no query of a block may see are left out.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "factors.h"

namespace attention {

// Bytes of a block of scores: with the weights, the gradients and the operands, they fill half of a core's second cache.
constexpr int64_t kBlockBytes = 1 << 17;
constexpr int64_t kMostQueries = 64;
// The score of a forbidden pair: its weight is zero, unless all pairs of a query are forbidden.
constexpr float kForbidden = -1e10f;
// The score of a key that does not exist.
constexpr float kAbsent = -3e38f;

// Some keys of one query: what is added to their scores.
template <typename T>
struct Bias {
  const T* position;    // [count], or null
  const bool* allowed;  // [count], or null
  int64_t count;
};

template <typename T>
GIMLET_INLINE Floats biased(const float* scores, const Bias<T>& bias, int64_t i) {
  const int64_t left = bias.count - i;
  Floats values = read(scores + i);
  if (bias.position != nullptr) values += read(bias.position + i, left);
  if (bias.allowed != nullptr) values = read(bias.allowed + i, left) != 0 ? values : Floats{} + kForbidden;
  return first_of(values, left, kAbsent);
}

// Computes the weights of a query's keys before their division by their sum, and writes [largest score, sum].
template <typename T>
GIMLET_INLINE void weigh(float* scores, const Bias<T>& bias, int64_t columns, T* weights, float softmax[2]) {
  Floats most = Floats{} + kAbsent;
  for (int64_t i = 0; i < columns; i += kLanes) {
    const Floats values = biased(scores, bias, i);
    most = values > most ? values : most;
    write(values, scores + i);
  }
  softmax[0] = largest(most);
  Floats total = {};
  for (int64_t i = 0; i < columns; i += kLanes) {
    const Floats values = rounded<T>(exponential(read(scores + i) - softmax[0]));
    total += values;
    write(values, weights + i);
  }
  softmax[1] = sum(total);
}

// Replaces a query's scores by its weights, and their gradients, divided by the sum of the weights, by those of
// the scores, which are also added to `position_gradient`, if there is one.
template <typename T>
GIMLET_INLINE void differentiate(float* scores, float* gradients, const Bias<T>& bias, int64_t columns,
                                 const float softmax[2], float* position_gradient) {
  Floats total = {};
  for (int64_t i = 0; i < columns; i += kLanes) {
    const Floats weights = rounded<T>(exponential(biased(scores, bias, i) - softmax[0]));
    total += weights * read(gradients + i);
    write(weights, scores + i);
  }
  // Not from the output, as elsewhere: this mean has the same rounding as the numbers from which it is subtracted.
  const float mean = sum(total) / softmax[1];
  for (int64_t i = 0; i < columns; i += kLanes) {
    const Floats values = (read(gradients + i) - mean) * read(scores + i);
    write(values, gradients + i);
    if (position_gradient == nullptr) continue;
    const int64_t left = bias.count - i;
    if (left > 0) write(read(position_gradient + i, left) + values, position_gradient + i, left);
  }
}

// The extents of one head, and of its operands in their padded layouts.
struct Extents {
  int64_t queries, keys, width;

  int64_t columns() const { return padded(keys); }
  int64_t depth() const { return padded(width); }
  // Queries at a time.
  int64_t block() const {
    const int64_t count = kBlockBytes / static_cast<int64_t>(sizeof(float)) / columns();
    return std::clamp<int64_t>(count / kLanes * kLanes, kLanes, kMostQueries);
  }
};

// Some queries, and the keys that any of them may see: `columns` of the padded ones from `from` on, which begins a panel.
struct Block {
  int64_t first, count, from, columns;
};

// One head of one row of the batch.
template <typename T>
struct Head {
  Extents extents;
  const std::vector<Block>& blocks;
  Rows<const T> query, key, value;
  const float* factors;     // of the values [keys], or null
  Rows<const T> position;   // [queries, keys]; null where there is none
  Rows<const bool> allowed;  // [queries, keys]; null where all pairs are

  GIMLET_INLINE Rows<const T> queries(const Block& block) const {
    return {query.data + block.first * query.stride, query.stride, block.count, query.width};
  }

  GIMLET_INLINE Bias<T> bias(const Block& block, int64_t query) const {
    const auto of = [&](const auto& rows) {
      return rows.data == nullptr ? nullptr : rows.data + query * rows.stride + block.from;
    };
    return {of(position), of(allowed), extents.keys - block.from};
  }
};

template <typename T>
struct Results {
  Rows<T> out;     // [queries, width]
  float* softmax;  // [queries]: the largest score
  float* totals;   // [queries]: the sum of exponentials
};

template <typename T>
struct Gradients {
  Rows<const T> out;  // given
  const float *softmax, *totals;
  Rows<T> query, key, value;
  float* position;  // [queries, keys], or null where none is asked for
};

// The memory of one thread. It grows to that of the largest head.
template <typename T>
struct Room {
  std::vector<T> first, keys, other_keys, values, weights, gradients, transposed[2];
  std::vector<float> scores, weight_gradients, out, sums[2];
};

template <typename T>
GIMLET_INLINE void attend(const Head<T>& head, const Results<T>& results, Room<T>& room) {
  const Extents& of = head.extents;
  const int64_t columns = of.columns(), depth = of.depth(), block_size = of.block();
  const Second<T> keys{sized(room.keys, depth * columns), depth, columns};
  const Second<T> values{sized(room.values, columns * depth), columns, depth};
  lay_out_second_transposed<T, T>(head.key, nullptr, keys);
  lay_out_second<T, T>(head.value, head.factors, values);
  T* const first = sized(room.first, block_size * depth);
  T* const weights = sized(room.weights, block_size * columns);
  float* const scores = sized(room.scores, block_size * columns);
  float* const out = sized(room.out, block_size * depth);
  for (const Block& block : head.blocks) {
    lay_out_first<T, T>(head.queries(block), first);
    // Each thread compiles a product for each number of rows. What the rows after the last query give is not read.
    const int64_t rows = rounded_up(block.count, kLanes);
    multiply(first, depth, rows, keys, 0, depth, block.from, block.columns, false, scores, columns);
    float softmax[kMostQueries][2];
    for (int64_t row = 0; row < block.count; ++row) {
      weigh<T>(scores + row * columns, head.bias(block, block.first + row), block.columns, weights + row * columns,
                  softmax[row]);
    }
    multiply(weights, columns, rows, values, block.from, block.columns, 0, depth, false, out, depth);
    for (int64_t row = 0; row < block.count; ++row) {
      const int64_t query = block.first + row;
      results.softmax[query] = softmax[row][0];
      results.totals[query] = softmax[row][1];
      T* const to = results.out.data + query * results.out.stride;
      const float share = 1.0f / softmax[row][1];
      for (int64_t i = 0; i < of.width; i += kLanes) {
        write(read(out + row * depth + i) * share, to + i, of.width - i);
      }
    }
  }
}

// The rows of a block as the second factor of a product. Those of float32 already are.
template <typename T>
GIMLET_INLINE Second<T> as_second(float* rows, int64_t count, int64_t columns, std::vector<T>& memory) {
  if constexpr (std::is_same_v<T, float>) {
    return {rows, count, columns};
  } else {
    const Second<T> second{sized(memory, rounded_up(count, 2) * columns), rounded_up(count, 2), columns};
    lay_out_second<float, T>({rows, columns, count, columns}, nullptr, second);
    return second;
  }
}

template <typename T>
GIMLET_INLINE const T* as_first(const float* rows, int64_t count, int64_t columns, std::vector<T>& memory) {
  if constexpr (std::is_same_v<T, float>) {
    return rows;
  } else {
    T* const first = sized(memory, count * columns);
    for (int64_t i = 0; i < count * columns; i += kLanes) write(read(rows + i), first + i);
    return first;
  }
}

template <typename T>
GIMLET_INLINE void attend_back(const Head<T>& head, const Gradients<T>& gradients, Room<T>& room) {
  const Extents& of = head.extents;
  const int64_t columns = of.columns(), depth = of.depth(), block_size = of.block();
  const Second<T> keys{sized(room.keys, depth * columns), depth, columns};
  const Second<T> keys_by_row{sized(room.other_keys, columns * depth), columns, depth};
  const Second<T> values{sized(room.values, depth * columns), depth, columns};
  lay_out_second_transposed<T, T>(head.key, nullptr, keys);
  lay_out_second<T, T>(head.key, nullptr, keys_by_row);
  lay_out_second_transposed<T, T>(head.value, head.factors, values);
  T* const first = sized(room.first, block_size * depth);
  float* const scores = sized(room.scores, block_size * columns);
  float* const weight_gradients = sized(room.weight_gradients, block_size * columns);
  float* const out = sized(room.out, block_size * depth);
  float* const sums[2] = {sized(room.sums[0], depth * columns), sized(room.sums[1], depth * columns)};
  for (float* sum : sums) std::fill_n(sum, depth * columns, 0.0f);
  for (const Block& block : head.blocks) {
    const int64_t stride = rounded_up(block.count, kLanes);
    const Rows<const T> queries = head.queries(block);
    lay_out_first<T, T>(queries, first);
    multiply(first, depth, block.count, keys, 0, depth, block.from, block.columns, false, scores, columns);
    T* const queries_transposed = sized(room.transposed[0], depth * stride);
    lay_out_first_transposed<T, T>(queries, queries_transposed, stride);
    // The gradient of the output, divided by the normalizer, so that the weights need not be divided by it.
    for (int64_t row = 0; row < block.count; ++row) {
      const T* const from = gradients.out.data + (block.first + row) * gradients.out.stride;
      const float share = 1.0f / gradients.totals[block.first + row];
      for (int64_t i = 0; i < depth; i += kLanes) write(read(from + i, of.width - i) * share, out + row * depth + i);
    }
    const T* const out_gradients = as_first<T>(out, block.count, depth, room.first);
    multiply(out_gradients, depth, block.count, values, 0, depth, block.from, block.columns, false, weight_gradients,
             columns);
    T* const out_transposed = sized(room.transposed[1], depth * stride);
    lay_out_first_transposed<float, T>({out, depth, block.count, depth}, out_transposed, stride);
    for (int64_t row = 0; row < block.count; ++row) {
      const int64_t query = block.first + row;
      const float softmax[2] = {gradients.softmax[query], gradients.totals[query]};
      float* const position =
          gradients.position == nullptr ? nullptr : gradients.position + query * of.keys + block.from;
      differentiate<T>(scores + row * columns, weight_gradients + row * columns, head.bias(block, query),
                          block.columns, softmax, position);
    }
    const auto weights = as_second<T>(scores, block.count, columns, room.weights);
    multiply(out_transposed, stride, depth, weights, 0, weights.depth, 0, block.columns, true, sums[1] + block.from,
             columns);
    const auto score_gradients = as_second<T>(weight_gradients, block.count, columns, room.weights);
    multiply(queries_transposed, stride, depth, score_gradients, 0, score_gradients.depth, 0, block.columns, true,
             sums[0] + block.from, columns);
    const T* const by_row = as_first<T>(weight_gradients, block.count, columns, room.gradients);
    multiply(by_row, columns, block.count, keys_by_row, block.from, block.columns, 0, depth, false, out, depth);
    for (int64_t row = 0; row < block.count; ++row) {
      T* const to = gradients.query.data + (block.first + row) * gradients.query.stride;
      for (int64_t i = 0; i < of.width; i += kLanes) write(read(out + row * depth + i), to + i, of.width - i);
    }
  }
  write_transposed(sums[0], columns, nullptr, gradients.key);
  write_transposed(sums[1], columns, head.factors, gradients.value);
}

}  // namespace attention

// One head, in the registers that the CPU has (`attention.cpp`).
void gimlet_attend(const attention::Head<float>& head, const attention::Results<float>& results,
                   attention::Room<float>& room);
void gimlet_attend(const attention::Head<c10::BFloat16>& head, const attention::Results<c10::BFloat16>& results,
                   attention::Room<c10::BFloat16>& room);
