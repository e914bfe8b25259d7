// Attention of a few queries to cached keys and values, as a step of decoding has it, for
// `src/nn/cached_attention.rs`.
//
// Of memory it reads the cache, once: a head's scores stay in a core's first cache. Everything is computed in
// float32 and rounded at the end.

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "clones.h"
#include "guarded.h"
#include "parallel.h"

// Keys or values of one head: `length` rows of `width`, `stride` elements apart.
template <typename T>
struct GimletRows {
  const T* start;
  int64_t length, stride, width;
};

namespace {

// Fewer bytes than this are not worth waking another thread.
constexpr int64_t kMinBytes = 1 << 18;
constexpr int64_t kLanes = 16;

using Floats = float __attribute__((vector_size(64)));
using Words = uint32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));

inline __attribute__((always_inline)) void load(const float* from, Floats& to) {
  std::memcpy(&to, from, sizeof(to));
}

inline __attribute__((always_inline)) void load(const c10::BFloat16* from, Floats& to) {
  Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  const Words words = __builtin_convertvector(halves, Words) << 16;
  std::memcpy(&to, &words, sizeof(to));
}

// The sum of all lanes, by halves.
inline __attribute__((always_inline)) float sum(const Floats& lanes) {
  using Eight = float __attribute__((vector_size(32)));
  using Four = float __attribute__((vector_size(16)));
  Eight eight[2];
  std::memcpy(eight, &lanes, sizeof(eight));
  eight[0] += eight[1];
  Four four[2];
  std::memcpy(four, eight, sizeof(four));
  four[0] += four[1];
  return (four[0][0] + four[0][2]) + (four[0][1] + four[0][3]);
}

template <typename T>
inline __attribute__((always_inline)) void products(const GimletRows<T>& keys, const float* query, float* scores) {
  for (int64_t k = 0; k < keys.length; ++k) {
    const T* key = keys.start + k * keys.stride;
    Floats lanes = {}, a, b;
    int64_t d = 0;
    for (; d + kLanes <= keys.width; d += kLanes) {
      load(query + d, a);
      load(key + d, b);
      lanes += a * b;
    }
    float score = sum(lanes);
    for (; d < keys.width; ++d) score += query[d] * static_cast<float>(key[d]);
    scores[k] = score;
  }
}

template <typename T>
inline __attribute__((always_inline)) void average(const GimletRows<T>& values, const float* weights, float* result) {
  constexpr int64_t kVectors = 4;
  int64_t d = 0;
  for (; d + kVectors * kLanes <= values.width; d += kVectors * kLanes) {
    Floats sums[kVectors] = {}, value;
    for (int64_t k = 0; k < values.length; ++k) {
      for (int64_t i = 0; i < kVectors; ++i) {
        load(values.start + k * values.stride + d + i * kLanes, value);
        sums[i] += value * weights[k];
      }
    }
    std::memcpy(result + d, sums, sizeof(sums));
  }
  for (; d < values.width; ++d) {
    float sum = 0;
    for (int64_t k = 0; k < values.length; ++k) {
      sum += weights[k] * static_cast<float>(values.start[k * values.stride + d]);
    }
    result[d] = sum;
  }
}

}  // namespace

GIMLET_CLONES void gimlet_products(const GimletRows<float>& keys, const float* query, float* scores) {
  products(keys, query, scores);
}

GIMLET_CLONES void gimlet_products(const GimletRows<c10::BFloat16>& keys, const float* query, float* scores) {
  products(keys, query, scores);
}

GIMLET_CLONES void gimlet_average(const GimletRows<float>& values, const float* weights, float* result) {
  average(values, weights, result);
}

GIMLET_CLONES void gimlet_average(const GimletRows<c10::BFloat16>& values, const float* weights, float* result) {
  average(values, weights, result);
}

namespace {

// Scores plus bias to weights that sum up to one.
template <typename T>
void softmax(const T* bias, int64_t stride, std::vector<float>& scores) {
  float largest = -std::numeric_limits<float>::infinity(), sum = 0;
  for (size_t k = 0; k < scores.size(); ++k) {
    scores[k] += static_cast<float>(bias[static_cast<int64_t>(k) * stride]);
    largest = std::max(largest, scores[k]);
  }
  for (float& score : scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  for (float& score : scores) score /= sum;
}

template <typename T>
GimletRows<T> rows_of(const at::Tensor& tensor, int64_t b, int64_t h) {
  const T* start = tensor.const_data_ptr<T>() + b * tensor.stride(0) + h * tensor.stride(1);
  return {start, tensor.size(2), tensor.stride(2), tensor.size(3)};
}

// `bias` has the size of the scores, [batch, heads, queries, length]; result [batch, queries, heads, width].
template <typename T>
void attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& bias,
            const at::Tensor& result) {
  const int64_t heads = query.size(1), width = query.size(3), length = key.size(2);
  const int64_t bytes = 2 * length * width * static_cast<int64_t>(sizeof(T));
  const auto one_head = [&](int64_t, int64_t task) {
    const int64_t b = task / heads, h = task % heads;
    const GimletRows<T> keys = rows_of<T>(key, b, h), values = rows_of<T>(value, b, h);
    std::vector<float> wide(width), scores(length), averaged(width);
    for (int64_t q = 0; q < query.size(2); ++q) {
      const T* from = rows_of<T>(query, b, h).start + q * query.stride(2);
      std::copy(from, from + width, wide.begin());
      gimlet_products(keys, wide.data(), scores.data());
      const T* added = bias.const_data_ptr<T>() + b * bias.stride(0) + h * bias.stride(1) + q * bias.stride(2);
      softmax(added, bias.stride(3), scores);
      gimlet_average(values, scores.data(), averaged.data());
      std::copy(averaged.begin(), averaged.end(),
                result.mutable_data_ptr<T>() + ((b * query.size(2) + q) * heads + h) * width);
    }
  };
  share_out(query.size(0) * heads, std::max<int64_t>(1, kMinBytes / bytes), one_head);
}

void check(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    TORCH_CHECK(tensor->dim() == 4 && tensor->stride(3) == 1, "heads are not rows, but ", tensor->sizes());
    TORCH_CHECK(tensor->scalar_type() == query.scalar_type(), "keys or values are ", tensor->scalar_type(),
                ", the queries ", query.scalar_type());
    const bool alike = tensor->size(0) == query.size(0) && tensor->size(1) == query.size(1) &&
                       tensor->size(3) == query.size(3);
    TORCH_CHECK(alike, "keys or values ", tensor->sizes(), " are not of queries ", query.sizes());
  }
  TORCH_CHECK(key.size(2) == value.size(2) && key.size(2) > 0, key.size(2), " keys have ", value.size(2),
              " values");
}

}  // namespace

extern "C" {

// `result` becomes, for each query, the average of the values weighted by the softmax of its products with
// the keys plus `bias`. Queries [batch, heads, queries, width], keys and values [batch, heads, length, width],
// all float32 or all bfloat16; `bias` broadcasts to [batch, heads, queries, length]; the result is
// [batch, queries, heads, width]. Null, or a message to be freed with `free`.
char* gimlet_cached_attention(const at::Tensor* query, const at::Tensor* key, const at::Tensor* value,
                              const at::Tensor* bias, at::Tensor* result) noexcept {
  return guarded([&] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    check(*query, *key, *value);
    const auto kind = query->scalar_type();
    const at::Tensor added =
        bias->to(kind).expand({query->size(0), query->size(1), query->size(2), key->size(2)});
    *result = at::empty({query->size(0), query->size(2), query->size(1), query->size(3)}, query->options());
    if (kind == at::kBFloat16) {
      attend<c10::BFloat16>(*query, *key, *value, added, *result);
    } else {
      attend<float>(*query, *key, *value, added, *result);
    }
  });
}

}  // extern "C"
