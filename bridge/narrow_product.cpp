// Products of matrices whose factors are multiplied as bfloat16, and whose sums and results are float32: for the
// loss, whose logits must not be rounded to bfloat16. On a CPU, libtorch's own products of bfloat16 matrices round their
// results.
//
// A float32 second factor may be multiplied as two halves of 8 bits each, so that with a first factor of bfloat16
// numbers the product differs from that in float32 by about 2^-17 of each term.

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "factors.h"
#include "guarded.h"
#include "parallel.h"
#include "products.h"

namespace {

using c10::BFloat16;

// The depth that is multiplied at once: a block of the second factor stays in a core's second cache.
constexpr int64_t kDepth = 512;
// Columns of a task, if the first factor needs no conversion.
constexpr int64_t kColumns = 4 * kPanel;
// Rows and columns of a task, if it does.
constexpr int64_t kMostRows = 256, kMostColumns = 8 * kPanel;

// A matrix row by row or, if `transposed`, column by column.
template <typename T>
struct Matrix {
  const T* data;
  int64_t stride;
  bool transposed;

  // A block of it, which if it is transposed has the block's columns as rows.
  GIMLET_INLINE Rows<const T> block(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    if (transposed) return {data + column * stride + row, stride, columns, rows};
    return {data + row * stride + column, stride, rows, columns};
  }
};

template <typename A, typename B>
struct Product {
  Matrix<A> first;   // [rows, depth]
  Matrix<B> second;  // [depth, columns]
  float* result;     // [rows, columns]
  int64_t rows, depth, columns;
  float scale;
  bool halves, add;

  // Whether the first factor is multiplied where it lies.
  bool in_place() const { return std::is_same_v<A, BFloat16> && !first.transposed && depth % 2 == 0; }
};

// The memory of one thread.
struct Room {
  std::vector<BFloat16> first, second, rest;
  std::vector<float> columns;
};

// Some rows and columns of the result.
struct Task {
  int64_t row, rows, column, columns;
};

template <typename T>
void multiply_block(const BFloat16* first, int64_t stride, const Task& task, const Second<BFloat16>& second, int64_t depth,
                    bool add, const T& product, Room& room) {
  float* const result = product.result + task.row * product.columns + task.column;
  if (second.columns == task.columns) {
    return multiply(first, stride, task.rows, second, 0, depth, 0, task.columns, add, result, product.columns);
  }
  // The last columns, of which the padded ones have no place in the result.
  float* const columns = sized(room.columns, task.rows * second.columns);
  multiply(first, stride, task.rows, second, 0, depth, 0, second.columns, false, columns, second.columns);
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t i = 0; i < task.columns; ++i) {
      float& to = result[row * product.columns + i];
      to = (add ? to : 0.0f) + columns[row * second.columns + i];
    }
  }
}

template <typename A, typename B>
GIMLET_INLINE void compute(const Product<A, B>& product, const Task& task, Room& room) {
  for (int64_t from = 0; from < product.depth; from += kDepth) {
    const int64_t depth = std::min(kDepth, product.depth - from), padded_depth = padded(depth);
    const BFloat16* first = nullptr;
    int64_t stride = product.first.stride, used_depth = depth;
    if (product.in_place()) {
      if constexpr (std::is_same_v<A, BFloat16>) first = product.first.data + task.row * stride + from;
    } else {
      BFloat16* const to = sized(room.first, rounded_up(padded(task.rows), kLanes) * padded_depth);
      const auto block = product.first.block(task.row, task.rows, from, depth);
      product.first.transposed ? lay_out_first_transposed<A, BFloat16>(block, to, padded_depth)
                               : lay_out_first<A, BFloat16>(block, to);
      first = to;
      stride = used_depth = padded_depth;
    }
    const int64_t columns = padded(task.columns);
    Second<BFloat16> second{sized(room.second, padded_depth * columns), padded_depth, columns, product.scale};
    if (product.halves) second.rest = sized(room.rest, padded_depth * columns);
    const auto block = product.second.block(from, depth, task.column, task.columns);
    product.second.transposed ? lay_out_second_transposed<B, BFloat16>(block, nullptr, second)
                              : lay_out_second<B, BFloat16>(block, nullptr, second);
    multiply_block(first, stride, task, second, used_depth, product.add || from > 0, product, room);
    if (!product.halves) continue;
    second.data = second.rest;
    multiply_block(first, stride, task, second, used_depth, /*add=*/true, product, room);
  }
}

}  // namespace

#define GIMLET_NARROW_PRODUCT(A, B)                                                                           \
  GIMLET_CLONES void gimlet_compute_narrow(const Product<A, B>& product, const Task& task, Room& room) { \
    compute<A, B>(product, task, room);                                                                        \
  }
GIMLET_NARROW_PRODUCT(float, float)
GIMLET_NARROW_PRODUCT(float, BFloat16)
GIMLET_NARROW_PRODUCT(BFloat16, float)

namespace {

template <typename A, typename B>
void compute(const Product<A, B>& product) {
  const int64_t most_rows = product.in_place() ? product.rows : kMostRows;
  const int64_t most_columns = product.in_place() ? kColumns : kMostColumns;
  std::vector<Task> tasks;
  for (int64_t column = 0; column < product.columns; column += most_columns) {
    for (int64_t row = 0; row < product.rows; row += most_rows) {
      tasks.push_back({row, std::min(most_rows, product.rows - row), column,
                       std::min(most_columns, product.columns - column)});
    }
  }
  share_out(static_cast<int64_t>(tasks.size()), /*grain=*/1, [&](int64_t, int64_t task) {
    thread_local Room room;
    gimlet_compute_narrow(product, tasks[task], room);
    at::native::cpublas::brgemm_release();
  });
}

template <typename T>
Matrix<T> matrix(const at::Tensor& tensor) {
  const bool transposed = tensor.stride(1) != 1 && tensor.size(1) != 1;
  TORCH_CHECK(!transposed || tensor.stride(0) == 1, "a factor is dense along neither of its dimensions");
  return {tensor.const_data_ptr<T>(), tensor.stride(transposed ? 1 : 0), transposed};
}

template <typename A, typename B>
void compute(const at::Tensor& first, const at::Tensor& second, const at::Tensor& result, float scale, bool halves, bool add) {
  compute(Product<A, B>{matrix<A>(first), matrix<B>(second), result.mutable_data_ptr<float>(), first.size(0),
                        first.size(1), second.size(1), scale, halves, add});
}

// The product of two bfloat16 matrices by libtorch. CUDA's has float32 results. Elsewhere the numbers are widened, whose
// products float32 holds exactly.
void multiply_by_libtorch(const at::Tensor& first, const at::Tensor& second, at::Tensor result, float scale, bool add) {
  const int beta = add ? 1 : 0;
  if (result.is_cuda()) {
    at::addmm_out(result, result, first, second, at::kFloat, beta, scale);
  } else {
    at::addmm_out(result, result, first.to(at::kFloat), second.to(at::kFloat), beta, scale);
  }
}

}  // namespace

extern "C" {

struct GimletNarrowProduct {
  const at::Tensor *first, *second;
  double scale;
  bool halves, add;
};

// Whether this CPU multiplies bfloat16 numbers faster than float32 ones.
bool gimlet_narrow_products_suit() noexcept { return small_products_in_bfloat16(); }

// result (+)= first (scale second): float32 [rows, columns], row by row. Null, or a message to be freed with `free`.
char* gimlet_narrow_product(GimletNarrowProduct in, const at::Tensor* result) noexcept {
  return guarded([&] {
    const at::Tensor &first = *in.first, &second = *in.second;
    TORCH_CHECK(first.dim() == 2 && second.dim() == 2 && first.size(1) == second.size(0), "factors of ", first.sizes(),
                " and ", second.sizes());
    TORCH_CHECK(result->is_contiguous() && result->scalar_type() == at::kFloat && result->size(0) == first.size(0) &&
                    result->size(1) == second.size(1),
                "a result of ", result->sizes());
    const float scale = static_cast<float>(in.scale);
    const bool narrow_first = first.scalar_type() == at::kBFloat16, narrow_second = second.scalar_type() == at::kBFloat16;
    if (narrow_first && narrow_second) return multiply_by_libtorch(first, second, *result, scale, in.add);
    TORCH_CHECK(result->is_cpu(), "on ", result->device(), " both factors are bfloat16");
    if (narrow_first) return compute<BFloat16, float>(first, second, *result, scale, in.halves, in.add);
    if (narrow_second) return compute<float, BFloat16>(first, second, *result, scale, in.halves, in.add);
    compute<float, float>(first, second, *result, scale, in.halves, in.add);
  });
}

}  // extern "C"
