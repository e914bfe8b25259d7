// The arguments of Gimlet's kernels, as plain pointers, without headers of torch or CUDA. Matrices lie row by row, densely
// where no stride is given, and begin at multiples of 16 bytes.
#pragma once

#include <cstdint>

namespace gimlet {

// The format of a matrix's numbers. Sums are float32 in any case.
enum class Dtype { kFloat32, kBfloat16 };

// RMS normalization of `sum = residual + mask * branch`, one row a block. Without `branch`, `sum` is not
// written; `mask` [rows / rows_per_mask, width] serves `rows_per_mask` rows each and may be absent.
struct RmsNorm {
  Dtype dtype;
  const void *residual, *branch, *mask;  // [rows, width]
  const void* scale;                     // [width]
  void *sum, *normal;                    // [rows, width]
  float* inverse_rms;                    // [rows]
  int64_t rows, rows_per_mask;
  int width;  // a multiple of 8, at most 8192
  float epsilon;
};

// Its gradients. `sum_gradient` and, with it, `mask` and `branch_gradient` may be absent. The
// scale's gradient is returned as `parts` partial sums.
struct RmsNormBackward {
  Dtype dtype;
  const void *normal_gradient, *sum_gradient, *mask, *sum, *scale;
  const float* inverse_rms;
  void *residual_gradient, *branch_gradient;
  float* scale_gradients;  // [parts, width]
  int64_t rows, rows_per_mask;
  int parts, width;
};

// gelu(gate) * linear with the tanh approximation. The rows of the two may lie apart (halves of one
// matrix): strides are numbers from row to row, multiples of 8.
struct GatedGelu {
  Dtype dtype;
  const void *gate, *linear;
  void* product;  // [rows, width]
  int64_t rows, gate_stride, linear_stride;
  int width;  // a multiple of 8
};

// Its gradients from that of the product [rows, width]. Each has the row layout of its tensor.
struct GatedGeluBackward {
  Dtype dtype;
  const void *product_gradient, *gate, *linear;
  void *gate_gradient, *linear_gradient;
  int64_t rows, gate_stride, linear_stride;
  int width;
};

// Softmax cross entropy with z-loss and smoothed targets, one row a block. Writes the gradient of
// `sum(coefficients * loss)` over the logits, or in bfloat16 to a matrix of its own, which a CPU's kernel does not.
struct CrossEntropy {
  Dtype dtype;
  void *logits, *narrow_gradient;  // [rows, vocab]; the second may be absent
  const int64_t* tokens;      // [rows]
  const float* coefficients;  // [rows]
  float *loss, *z_loss, *correct;
  int64_t rows;
  int vocab;
  // Factor of the z-loss, mass of the target, mass of every other token, entropy of such a target.
  float z_factor, confidence, low, least;
};

// Sums over the diagonals of [batch, heads, queries, keys]: those with the same `key - query`,
// which ranges from 1 - queries to keys - 1. Returned as partial sums [parts, heads, queries + keys
// - 1].
struct DiagonalSums {
  Dtype dtype;
  const void* values;
  float* sums;
  int64_t batch;
  int heads, queries, keys, parts;
};

enum class Fp8 { kE4m3, kE5m2 };

// The largest magnitude in a matrix, merged into `*amax`, which the caller sets to 0 before.
struct LargestMagnitude {
  Dtype dtype;
  const void* values;
  int64_t count;  // a multiple of 8
  float* amax;
};

// Numbers times `*scale` in fp8, with clamping, in the layout of the input and transposed; either
// may be absent. Merges the largest magnitude before scaling into `*amax`, if given.
struct CastFp8 {
  Dtype dtype;
  Fp8 format;
  const void* values;          // [rows, columns]
  const float* scale;
  float* amax;
  void *narrow, *transposed;   // [rows, columns], [columns, rows]
  int64_t rows;
  int columns;                 // a multiple of 8
};

// Adafactor's factors that change from update to update, in memory, so that recorded work reads those of its time.
struct AdafactorRates {
  float learning_rate;
  float decay, mixing;  // of a second moment, and of the squares mixed into it
  float kept;           // of the parameter, less its weight decay
};

// Adafactor's factors, the same for all parameters.
struct AdafactorRule {
  const AdafactorRates* rates;
  float epsilon;  // added to squares
  bool by_parameter_scale;
  float least_scale, greatest_scale;  // of the parameter, then
  float threshold;                    // of the update's root mean square; infinite for none
};

// Updates a matrix and its two moments, one of which is divided by its mean. The matrix may have a copy in bfloat16,
// times a factor, whose gradient then comes in that format too. Rows of gradient and copy may lie apart, as those of a
// matrix beside others: strides are numbers from row to row, multiples of 8.
struct AdafactorMatrix {
  AdafactorRule rule;
  Dtype gradient_dtype;
  const void* gradient;   // [rows, columns], to be multiplied by `gradient_factor`
  float* param;           // [rows, columns]
  float* row_moment;      // [rows]
  float* column_moment;   // [columns]
  float* squares;         // [1], or null: the sum of the gradient's squares is written here
  void* copy;             // bfloat16 [rows, columns], or null
  float* workspace;       // on CUDA: adafactor_workspace(rows, columns) numbers
  float gradient_factor, copy_factor;
  int64_t rows, gradient_stride, copy_stride;
  int columns;  // a multiple of 8
  bool mean_of_rows;
};

// Updates numbers and their moments; there must be few enough for one block.
struct AdafactorVector {
  AdafactorRule rule;
  const float* gradient;
  float *param, *moment;
  float* squares;  // as of a matrix
  int count;
};

}  // namespace gimlet
