// Attention of a few queries to many keys, for a step of decoding (`src/nn/cpu_decoding/step_attention.rs`).
//
// For one query it takes as long as reading keys and values. Scores stay in a core's cache in the meantime.
// Everything is computed in float32.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include "guarded.h"
#include "parallel.h"
#include "vectors.h"

namespace {

// The widest head, in vectors of `kLanes` numbers.
constexpr int64_t kMaxParts = 16;

// A head's keys or values: `rows` of `width` elements, with a stride in elements.
template <typename T>
struct Rows {
  const T* first;
  int64_t stride, rows, width;
  const T* next;  // what will be read after them, in rows as far apart

  GIMLET_INLINE const T* at(int64_t row) const {
    const int64_t bytes = width * static_cast<int64_t>(sizeof(T)), later = row + kBytesAhead / bytes;
    ask_for(later < rows ? first + later * stride : next + (later - rows) * stride, bytes);
    return first + row * stride;
  }
};

// A query, its scores and its result: `scores` holds biases at first, then padding with the lowest number up to a multiple
// of `kLanes`.
template <typename T>
struct Query {
  const T* numbers;
  float* scores;
  T* to;
};

// The number of queries that read the same keys and values together.
constexpr int64_t kQueries = 4;

// scores[row] += query . keys[row] of each query, for as many rows as there are lanes.
template <int64_t kCount, typename T>
GIMLET_INLINE void score(const Rows<T>& keys, const Floats wide[][kMaxParts], int64_t width, int64_t first,
                         const Query<T>* queries) {
  float quarters[kCount][kLanes][4] = {};
  for (int64_t row = first; row < std::min(first + kLanes, keys.rows); ++row) {
    const T* key = keys.at(row);
    Floats products[kCount] = {};
    for (int64_t i = 0; i * kLanes < width; ++i) {
      const Floats numbers = read(key + i * kLanes, width - i * kLanes);
      for (int64_t q = 0; q < kCount; ++q) products[q] += numbers * wide[q][i];
    }
    for (int64_t q = 0; q < kCount; ++q) {
      const Quarter some = quarter(products[q]);
      std::memcpy(quarters[q][row - first], &some, sizeof(some));
    }
  }
  for (int64_t q = 0; q < kCount; ++q) {
    for (int64_t i = 0; i < kLanes; ++i) {
      const float* const of = quarters[q][i];
      queries[q].scores[first + i] += (of[0] + of[1]) + (of[2] + of[3]);
    }
  }
}

// The values' sums by the weights of each query, over its normalizer.
template <int64_t kCount, typename T>
GIMLET_INLINE void average(const Rows<T>& values, int64_t width, const float* normalizers, const Query<T>* queries) {
  Floats sums[kCount][kMaxParts];
  for (int64_t q = 0; q < kCount; ++q) {
    for (int64_t i = 0; i * kLanes < width; ++i) sums[q][i] = Floats{};
  }
  for (int64_t row = 0; row < values.rows; ++row) {
    const T* value = values.at(row);
    for (int64_t i = 0; i * kLanes < width; ++i) {
      const Floats numbers = read(value + i * kLanes, width - i * kLanes);
      for (int64_t q = 0; q < kCount; ++q) sums[q][i] += numbers * queries[q].scores[row];
    }
  }
  for (int64_t q = 0; q < kCount; ++q) {
    for (int64_t i = 0; i * kLanes < width; ++i) {
      write(sums[q][i] / normalizers[q], queries[q].to + i * kLanes, width - i * kLanes);
    }
  }
}

template <int64_t kCount, typename T>
GIMLET_INLINE void attend(const Rows<T>& keys, const Rows<T>& values, int64_t width, const Query<T>* queries) {
  Floats wide[kCount][kMaxParts];
  for (int64_t q = 0; q < kCount; ++q) {
    for (int64_t i = 0; i * kLanes < width; ++i) {
      wide[q][i] = read(queries[q].numbers + i * kLanes, width - i * kLanes);
    }
  }
  for (int64_t first = 0; first < keys.rows; first += kLanes) score<kCount>(keys, wide, width, first, queries);
  float normalizers[kCount];
  for (int64_t q = 0; q < kCount; ++q) normalizers[q] = weigh(queries[q].scores, rounded_up(keys.rows, kLanes));
  average<kCount>(values, width, normalizers, queries);
}

// With the width of T5's heads as a constant, sums stay in registers.
template <int64_t kCount, typename T>
GIMLET_INLINE void attend(const Rows<T>& keys, const Rows<T>& values, const Query<T>* queries) {
  constexpr int64_t kUsual = 64;
  keys.width == kUsual ? attend<kCount>(keys, values, kUsual, queries)
                       : attend<kCount>(keys, values, keys.width, queries);
}

template <typename T>
GIMLET_INLINE void attend(const Rows<T>& keys, const Rows<T>& values, const Query<T>* queries, int64_t count) {
  count == kQueries ? attend<kQueries>(keys, values, queries) : attend<1>(keys, values, queries);
}

}  // namespace

GIMLET_CLONES void gimlet_attend(const Rows<float>& keys, const Rows<float>& values, const Query<float>* queries,
                                 int64_t count) {
  attend(keys, values, queries, count);
}

GIMLET_CLONES void gimlet_attend(const Rows<c10::BFloat16>& keys, const Rows<c10::BFloat16>& values,
                                 const Query<c10::BFloat16>* queries, int64_t count) {
  attend(keys, values, queries, count);
}

namespace {

// The rows of all heads, with the elements from one batch, head and row to the next.
template <typename T>
struct Heads {
  const T* first;
  int64_t by_batch, by_head, by_row, rows, width;

  Rows<T> of(int64_t b, int64_t h) const {
    const T* here = first + b * by_batch + h * by_head;
    return {here, by_row, rows, width, here + by_head};
  }
};

// Queries, keys and values of heads, and the scores' biases: a row for each query.
template <typename T>
struct Operands {
  Heads<T> queries, keys, values, biases;
};

// Sets `to` [batch, queries, heads, width]. Calls `begin(b, h)` before it reads that head.
template <typename T, typename Begin>
void attend_all(const Operands<T>& of, int64_t batch, int64_t heads, T* to, const Begin& begin) {
  const int64_t queries = of.queries.rows, width = of.queries.width;
  const int64_t num_keys = of.keys.rows, room = rounded_up(num_keys, kLanes);
  share_out_awake(batch * heads, /*grain=*/1, [&](int64_t task) {
    const int64_t b = task / heads, h = task % heads;
    begin(b, h);
    thread_local std::vector<float> memory;
    float* const scores = sized(memory, kQueries * room);
    Rows<T> keys = of.keys.of(b, h), values = of.values.of(b, h);
    values.next = keys.next;
    keys.next = values.first;
    const auto asked = of.queries.of(b, h), biases = of.biases.of(b, h);
    const auto query = [&](int64_t q, float* scores) {
      std::copy_n(biases.first + q * biases.stride, num_keys, scores);
      std::fill(scores + num_keys, scores + room, std::numeric_limits<float>::lowest());
      return Query<T>{asked.first + q * asked.stride, scores, to + ((b * queries + q) * heads + h) * width};
    };
    for (int64_t q = 0; q < queries;) {
      const int64_t count = queries - q < kQueries ? 1 : kQueries;
      Query<T> together[kQueries];
      for (int64_t i = 0; i < count; ++i) together[i] = query(q + i, scores + i * room);
      gimlet_attend(keys, values, together, count);
      q += count;
    }
  });
}

// [batch, heads, rows, width], where an extent of 1 stands for any.
template <typename T>
Heads<T> heads_of(const at::Tensor& tensor) {
  const auto stride = [&](int64_t axis) { return tensor.size(axis) == 1 ? 0 : tensor.stride(axis); };
  return {tensor.const_data_ptr<T>(), stride(0), stride(1), stride(2), tensor.size(2), tensor.size(3)};
}

template <typename T>
void attend_to_keys(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& bias,
                    const at::Tensor& result) {
  const int64_t batch = key.size(0), heads = key.size(1), width = key.size(3), row = query.stride(0);
  const int64_t queries = query.size(0) / batch;
  const Heads<T> asked{query.const_data_ptr<T>(), queries * row, width, row, queries, width};
  const Operands<T> of{asked, heads_of<T>(key), heads_of<T>(value), heads_of<T>(bias)};
  attend_all(of, batch, heads, result.mutable_data_ptr<T>(), [](int64_t, int64_t) {});
}

template <typename T>
void attend_to_past(const at::Tensor& projected, const at::Tensor& cache, const at::Tensor& bias, const int64_t* filled,
                    int64_t position, const at::Tensor& result) {
  const int64_t batch = cache.size(0), heads = cache.size(3), width = cache.size(4), joined = heads * width;
  const T* const query = projected.const_data_ptr<T>();
  T* const past = cache.mutable_data_ptr<T>();
  const Heads<T> asked{query, 3 * joined, width, 0, 1, width};
  const Heads<T> keys{past, cache.stride(0), width, 2 * joined, position + 1, width};
  Heads<T> values = keys, biases = heads_of<T>(bias);
  values.first += joined;
  biases.first += position * biases.by_row;
  attend_all({asked, keys, values, biases}, batch, heads, result.mutable_data_ptr<T>(), [&](int64_t b, int64_t h) {
    if (filled != nullptr && position < filled[b]) return;
    const T* key = query + (b * 3 + 1) * joined + h * width;
    T* to = past + b * cache.stride(0) + position * 2 * joined + h * width;
    std::copy_n(key, width, to);
    std::copy_n(key + joined, width, to + joined);
  });
}

void check_width(int64_t width) {
  TORCH_CHECK(0 < width && width <= kMaxParts * kLanes, "heads of ", width, " numbers");
}

void check_kinds(const at::Tensor& query, std::initializer_list<const at::Tensor*> others) {
  for (const auto* tensor : others) {
    TORCH_CHECK(tensor->scalar_type() == query.scalar_type() && tensor->is_cpu(),
                "keys, values or biases are not of the type of the queries, but ", tensor->scalar_type(), " on ",
                tensor->device());
  }
}

// A bias of `rows` and `keys`, for each head and batch or for all.
void check_bias(const at::Tensor& bias, int64_t batch, int64_t heads, int64_t rows, int64_t keys) {
  const auto spans = [&](int64_t axis, int64_t extent) { return bias.size(axis) == 1 || bias.size(axis) == extent; };
  TORCH_CHECK(bias.dim() == 4 && spans(0, batch) && spans(1, heads) && spans(2, rows) && bias.size(3) == keys &&
                  (keys == 1 || bias.stride(3) == 1),
              "biases are not [", batch, ", ", heads, ", ", rows, ", ", keys, "], but ", bias.sizes());
}

bool is_narrow(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBFloat16; }

}  // namespace

extern "C" {

// Sets `result` [batch * queries, heads * width] to the values' averages, weighted by the softmax of products of `query`
// of that size with `key`, [batch, heads, keys, width] like `value`, plus `bias` [batch or 1, heads or 1, queries or 1,
// keys]. All float32 or all bfloat16, heads up to 256 wide, and contiguous. Null, or a message to be freed with `free`.
char* gimlet_step_attention(const at::Tensor* query, const at::Tensor* key, const at::Tensor* value,
                            const at::Tensor* bias, at::Tensor* result) noexcept {
  return guarded([&] {
    TORCH_CHECK(key->dim() == 4 && key->sizes() == value->sizes() && key->size(0) > 0 && key->size(2) > 0 &&
                    key->stride(3) == 1 && value->stride(3) == 1,
                "keys ", key->sizes(), " and values ", value->sizes(), " are not [batch, heads, length, width] with ",
                "heads in one piece each");
    const int64_t batch = key->size(0), heads = key->size(1), joined = heads * key->size(3);
    check_width(key->size(3));
    TORCH_CHECK(query->dim() == 2 && query->size(1) == joined && query->stride(1) == 1 && query->size(0) % batch == 0,
                "queries of keys ", key->sizes(), " are not [rows, ", joined, "], but ", query->sizes());
    check_kinds(*query, {key, value, bias});
    check_bias(*bias, batch, heads, query->size(0) / batch, key->size(2));
    *result = at::empty(query->sizes(), query->options());
    is_narrow(*query) ? attend_to_keys<c10::BFloat16>(*query, *key, *value, *bias, *result)
                      : attend_to_keys<float>(*query, *key, *value, *bias, *result);
  });
}

// Stores the keys and values of `projected`, [rows, 3 * heads * width] with queries before them, in `cache` [rows, length,
// 2, heads, width] at `position`, and sets `result` [rows, heads * width] as `gimlet_step_attention` does with all keys
// and values up to there. `bias` is [1, heads or 1, length, length], a row for each position. What the first `filled`,
// int64 [rows], positions of a row hold stays as it is; null: none. Null, or a message to be freed with `free`.
char* gimlet_past_attention(const at::Tensor* projected, const at::Tensor* cache, const at::Tensor* bias,
                            const at::Tensor* filled, int64_t position, at::Tensor* result) noexcept {
  return guarded([&] {
    TORCH_CHECK(cache->dim() == 5 && cache->size(2) == 2 && cache->is_contiguous(),
                "a cache is not [rows, length, 2, heads, width] in one piece, but ", cache->sizes());
    const int64_t rows = cache->size(0), length = cache->size(1), heads = cache->size(3);
    const int64_t joined = heads * cache->size(4);
    check_width(cache->size(4));
    TORCH_CHECK(projected->dim() == 2 && projected->size(0) == rows && projected->size(1) == 3 * joined &&
                    projected->is_contiguous(),
                "queries, keys and values are not [", rows, ", ", 3 * joined, "], but ", projected->sizes());
    TORCH_CHECK(0 <= position && position < length, "position ", position, " of ", length);
    check_kinds(*projected, {cache, bias});
    check_bias(*bias, 1, heads, length, length);
    TORCH_CHECK(filled == nullptr || (filled->scalar_type() == at::kLong && filled->numel() == rows &&
                                      filled->is_contiguous()),
                "filled positions are not int64 [", rows, "]");
    const int64_t* const counts = filled == nullptr ? nullptr : filled->const_data_ptr<int64_t>();
    *result = at::empty({rows, joined}, projected->options());
    is_narrow(*projected) ? attend_to_past<c10::BFloat16>(*projected, *cache, *bias, counts, position, *result)
                          : attend_to_past<float>(*projected, *cache, *bias, counts, position, *result);
  });
}

}  // extern "C"
