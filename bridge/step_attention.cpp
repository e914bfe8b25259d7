// Attention of a few queries to many keys, for a step of decoding (`src/nn/step_attention.rs`).
//
// It takes as long as reading keys and values. A query's scores stay in a core's cache in the
// meantime.
// Everything is computed in float32.

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "guarded.h"
#include "parallel.h"
#include "vectors.h"

namespace {

// The widest head: its sums stay in registers.
constexpr int64_t kMaxWidth = 16 * kLanes;

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

// scores[row] += query . keys[row], for as many rows as there are lanes.
template <typename T>
GIMLET_INLINE void score(const Rows<T>& keys, const Floats* query, int64_t first, float* scores) {
  float quarters[kLanes][4] = {};
  for (int64_t row = first; row < std::min(first + kLanes, keys.rows); ++row) {
    const T* key = keys.at(row);
    Floats products = {};
    for (int64_t i = 0; i < keys.width / kLanes; ++i) products += read(key + i * kLanes) * query[i];
    const Quarter some = quarter(products);
    std::memcpy(quarters[row - first], &some, sizeof(some));
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    scores[first + i] += (quarters[i][0] + quarters[i][1]) + (quarters[i][2] + quarters[i][3]);
  }
}

// The values' sum by `weights`, over `normalizer`.
template <typename T>
GIMLET_INLINE void average(const Rows<T>& values, const float* weights, float normalizer, T* to) {
  Floats sums[kMaxWidth / kLanes] = {};
  const int64_t parts = values.width / kLanes;
  for (int64_t row = 0; row < values.rows; ++row) {
    const T* value = values.at(row);
    for (int64_t i = 0; i < parts; ++i) sums[i] += read(value + i * kLanes) * weights[row];
  }
  for (int64_t i = 0; i < parts; ++i) write(sums[i] / normalizer, to + i * kLanes);
}

// One query: `scores` holds its biases, with the lowest of numbers up to a multiple of the lanes.
template <typename T>
GIMLET_INLINE void attend(const Rows<T>& keys, const Rows<T>& values, const T* query,
                          std::vector<float>& scores, T* to) {
  Floats wide[kMaxWidth / kLanes];
  for (int64_t i = 0; i < keys.width / kLanes; ++i) wide[i] = read(query + i * kLanes);
  for (int64_t first = 0; first < keys.rows; first += kLanes) score(keys, wide, first, scores.data());
  const float normalizer = weigh(scores.data(), static_cast<int64_t>(scores.size()));
  average(values, scores.data(), normalizer, to);
}

}  // namespace

GIMLET_CLONES void gimlet_attend(const Rows<float>& keys, const Rows<float>& values, const float* query,
                                 std::vector<float>& scores, float* to) {
  attend(keys, values, query, scores, to);
}

GIMLET_CLONES void gimlet_attend(const Rows<c10::BFloat16>& keys, const Rows<c10::BFloat16>& values,
                                 const c10::BFloat16* query, std::vector<float>& scores, c10::BFloat16* to) {
  attend(keys, values, query, scores, to);
}

namespace {

template <typename T>
Rows<T> rows_of(const at::Tensor& tensor, int64_t b, int64_t h) {
  const T* first = tensor.const_data_ptr<T>() + b * tensor.stride(0) + h * tensor.stride(1);
  return {first, tensor.stride(2), tensor.size(2), tensor.size(3), first + tensor.stride(1)};
}

// `bias` has been expanded to [batch, heads, queries, keys], and the numbers of a query are
// contiguous. The result is [batch, queries, heads, width].
template <typename T>
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const at::Tensor& bias) {
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2), width = query.size(3);
  at::Tensor result = at::empty({batch, queries, heads, width}, query.options());
  T* to = result.mutable_data_ptr<T>();
  const int64_t num_keys = key.size(2), room = (num_keys + kLanes - 1) / kLanes * kLanes;
  share_out_awake(batch * heads, /*grain=*/1, [&](int64_t task) {
    const int64_t b = task / heads, h = task % heads;
    thread_local std::vector<float> scores;
    Rows<T> keys = rows_of<T>(key, b, h);
    Rows<T> values = rows_of<T>(value, b, h);
    values.next = keys.next;
    keys.next = values.first;
    const auto asked = rows_of<T>(query, b, h), biases = rows_of<T>(bias, b, h);
    for (int64_t q = 0; q < queries; ++q) {
      scores.assign(room, std::numeric_limits<float>::lowest());
      std::copy_n(biases.first + q * biases.stride, num_keys, scores.begin());
      gimlet_attend(keys, values, asked.first + q * asked.stride, scores,
                    to + ((b * queries + q) * heads + h) * width);
    }
  });
  return result;
}

}  // namespace

extern "C" {

// Sets `result` [batch, queries, heads, width] to the values' averages, weighted by the softmax of
// products of `query` [batch, heads, queries, width] with `key`, [batch, heads, keys, width] like
// `value`, plus `bias`, which broadcasts to [batch, heads, queries, keys]. All float32 or all
// bfloat16, heads a multiple of 16 wide, up to 256, and contiguous. Null, or a message to be freed
// with `free`.
char* gimlet_step_attention(const at::Tensor* query, const at::Tensor* key, const at::Tensor* value,
                            const at::Tensor* bias, at::Tensor* result) noexcept {
  return guarded([&] {
    const int64_t width = query->size(3);
    TORCH_CHECK(width % kLanes == 0 && width <= kMaxWidth, "heads of ", width, " numbers");
    for (const auto* tensor : {query, key, value}) {
      TORCH_CHECK(tensor->dim() == 4 && tensor->size(3) == width && tensor->stride(3) == 1,
                  "heads are not [batch, heads, length, ", width, "] in one piece each, but ", tensor->sizes());
    }
    TORCH_CHECK(key->sizes() == value->sizes() && key->size(0) == query->size(0) && key->size(2) > 0 &&
                    key->size(1) == query->size(1),
                "keys ", key->sizes(), " and values ", value->sizes(), " are not those of queries ", query->sizes());
    for (const auto* tensor : {key, value, bias}) {
      TORCH_CHECK(tensor->scalar_type() == query->scalar_type(),
                  "keys, values or biases are not of the type of the queries, but ", tensor->scalar_type());
    }
    auto biases = bias->expand({query->size(0), query->size(1), query->size(2), key->size(2)});
    if (biases.stride(3) != 1) biases = biases.contiguous();
    const bool narrow = query->scalar_type() == at::kBFloat16;
    *result = narrow ? attention<c10::BFloat16>(*query, *key, *value, biases)
                     : attention<float>(*query, *key, *value, biases);
  });
}

}  // extern "C"
