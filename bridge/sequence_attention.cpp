// Attention of whole sequences to themselves, without gradients (`src/nn/cpu_decoding/sequence_attention.rs`): one head of one
// sequence after the other, as in training.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attention_head.h"
#include "guarded.h"
#include "parallel.h"
#include "products.h"

using namespace attention;

namespace {

template <typename T>
struct Sequences {
  const T* projected;  // [rows, 3, heads, width]: queries, keys and values
  const T* distances;  // [heads, 2 * longest - 1]: what is added for each distance of a key from a query
  const bool* real;    // [rows]: the keys that may be seen
  T* result;           // [rows, heads, width]
  int64_t heads, width, longest;

  int64_t joined() const { return heads * width; }

  // Query, key or value of a sequence's head.
  Rows<const T> part(int64_t start, int64_t length, int64_t index, int64_t head) const {
    return {projected + (start * 3 + index) * joined() + head * width, 3 * joined(), length, width};
  }

  // What is added to the scores: a query has the distances of the one before it, each for the next key.
  Rows<const T> position(int64_t length, int64_t head) const {
    return {distances + head * (2 * longest - 1) + longest - 1, -1, length, length};
  }

  // The keys of every query, or null if these are all.
  Rows<const bool> allowed(int64_t start, int64_t length) const {
    const bool* const first = real + start;
    return {std::find(first, first + length, false) == first + length ? nullptr : first, 0, length, length};
  }
};

std::vector<Block> blocks_of(const Extents& of) {
  std::vector<Block> blocks;
  for (int64_t first = 0; first < of.queries; first += of.block()) {
    blocks.push_back({first, std::min(of.block(), of.queries - first), 0, of.columns()});
  }
  return blocks;
}

template <typename T>
void attend_sequence(const Sequences<T>& in, int64_t start, int64_t length, int64_t head) {
  thread_local Room<T> room;
  thread_local std::vector<float> softmax;
  const Extents extents{length, length, in.width};
  const auto blocks = blocks_of(extents);
  const auto part = [&](int64_t index) { return in.part(start, length, index, head); };
  const Rows<T> out{in.result + start * in.joined() + head * in.width, in.joined(), length, in.width};
  float* const numbers = sized(softmax, 2 * length);
  gimlet_attend({extents, blocks, part(0), part(1), part(2), nullptr, in.position(length, head),
                 in.allowed(start, length)},
                {out, numbers, numbers + length}, room);
  at::native::cpublas::brgemm_release();
}

template <typename T>
void attend_all(const at::Tensor& projected, const int64_t* lengths, int64_t count, const at::Tensor& distances,
                const at::Tensor& real, const at::Tensor& result) {
  const Sequences<T> in{projected.const_data_ptr<T>(), distances.const_data_ptr<T>(), real.const_data_ptr<bool>(),
                        result.mutable_data_ptr<T>(), projected.size(2), projected.size(3),
                        (distances.size(1) + 1) / 2};
  std::vector<int64_t> starts(count + 1, 0);
  for (int64_t i = 0; i < count; ++i) starts[i + 1] = starts[i] + lengths[i];
  share_out_awake(count * in.heads, /*grain=*/1, [&](int64_t task) {
    const int64_t sequence = task % count;
    attend_sequence(in, starts[sequence], lengths[sequence], task / count);
  });
}

}  // namespace

extern "C" {

// `result` [rows, heads, width] becomes the averages of the values of `projected` [rows, 3, heads, width], float32
// or bfloat16, which are queries, keys and values of sequences of `lengths` one after the other. The weights
// are the softmax of products of queries and keys, plus `distances` [heads, 2 * longest - 1] of a key from a query,
// -(longest - 1) first, in the same format; keys that are not `real`, bool [rows], are not seen, except in a sequence
// without any. Null, or a message to be freed with `free`.
char* gimlet_sequence_attention(const at::Tensor* projected, const int64_t* lengths, int64_t count,
                                const at::Tensor* distances, const at::Tensor* real, at::Tensor* result) noexcept {
  return guarded([&] {
    TORCH_CHECK(projected->dim() == 4 && projected->size(1) == 3 && projected->is_contiguous(),
                "queries, keys and values are not [rows, 3, heads, width] in one piece, but ", projected->sizes());
    const int64_t rows = projected->size(0), heads = projected->size(2);
    TORCH_CHECK(distances->dim() == 2 && distances->size(0) == heads && distances->is_contiguous() &&
                    distances->scalar_type() == projected->scalar_type(),
                "distances are not ", projected->scalar_type(), " [", heads, ", distances], but ", distances->sizes());
    TORCH_CHECK(real->numel() == rows && real->is_contiguous() && real->scalar_type() == at::kBool,
                "the mask is not bool [", rows, "]");
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      TORCH_CHECK(lengths[i] > 0 && 2 * lengths[i] - 1 <= distances->size(1), "a sequence of ", lengths[i]);
      sum += lengths[i];
    }
    TORCH_CHECK(sum == rows, "sequences of ", sum, " rows in all, but there are ", rows);
    const auto kind = attention_format(projected->scalar_type());
    const at::Tensor converted = projected->to(kind), offsets = distances->to(kind);
    const at::Tensor found = at::empty({rows, heads, projected->size(3)}, converted.options());
    kind == at::kBFloat16 ? attend_all<c10::BFloat16>(converted, lengths, count, offsets, *real, found)
                          : attend_all<float>(converted, lengths, count, offsets, *real, found);
    *result = found.to(projected->scalar_type());
  });
}

}  // extern "C"
