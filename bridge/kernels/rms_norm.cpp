// RMS normalization on the CPU, a row at a time.

#include <cmath>

#include "../parallel.h"
#include "../vectors.h"
#include "cpu.h"

namespace {

// Numbers that are worth another thread.
constexpr int64_t kGrain = 1 << 14;

template <typename T>
GIMLET_INLINE const T* row_of(const void* rows, int64_t row, int64_t width) {
  return rows == nullptr ? nullptr : static_cast<const T*>(rows) + row * width;
}

template <typename T>
GIMLET_INLINE T* row_of(void* rows, int64_t row, int64_t width) {
  return rows == nullptr ? nullptr : static_cast<T*>(rows) + row * width;
}

template <typename T>
GIMLET_INLINE void norm_row(const gimlet::RmsNorm& call, int64_t row) {
  const int64_t width = call.width;
  const T* const residual = row_of<T>(call.residual, row, width);
  const T* const branch = row_of<T>(call.branch, row, width);
  const T* const mask = row_of<T>(call.mask, row / call.rows_per_mask, width);
  const T* const scale = static_cast<const T*>(call.scale);
  T* const normal = row_of<T>(call.normal, row, width);
  T* const sums = row_of<T>(call.sum, row, width);
  Floats squares = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    Floats values = read(residual + i, width - i);
    if (branch != nullptr) {
      const Floats added = read(branch + i, width - i);
      values += mask != nullptr ? added * read(mask + i, width - i) : added;
      values = rounded<T>(values);
      write(values, sums + i, width - i);
    }
    squares += values * values;
  }
  const float inverse = 1.0f / std::sqrt(sum(squares) / static_cast<float>(width) + call.epsilon);
  call.inverse_rms[row] = inverse;
  const T* const from = branch != nullptr ? sums : residual;
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats unscaled = rounded<T>(read(from + i, width - i) * inverse);
    write(unscaled * read(scale + i, width - i), normal + i, width - i);
  }
}

// Adds to the scale's gradient, [width].
template <typename T>
GIMLET_INLINE void differentiate_row(const gimlet::RmsNormBackward& call, int64_t row, float* scale_gradient) {
  const int64_t width = call.width;
  const float inverse = call.inverse_rms[row];
  const T* const sums = row_of<T>(call.sum, row, width);
  const T* const gradients = row_of<T>(call.normal_gradient, row, width);
  const T* const passed = row_of<T>(call.sum_gradient, row, width);
  const T* const mask = row_of<T>(call.mask, row / call.rows_per_mask, width);
  const T* const scale = static_cast<const T*>(call.scale);
  T* const residual = row_of<T>(call.residual_gradient, row, width);
  T* const branch = row_of<T>(call.branch_gradient, row, width);
  Floats products = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t left = width - i;
    const Floats values = read(sums + i, left), gradient = read(gradients + i, left);
    products += values * gradient * read(scale + i, left);
    write(read(scale_gradient + i, left) + gradient * rounded<T>(values * inverse), scale_gradient + i, left);
  }
  const float product = sum(products) * inverse * inverse / static_cast<float>(width);
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t left = width - i;
    const Floats scaled = read(gradients + i, left) * read(scale + i, left);
    Floats gradient = (scaled - read(sums + i, left) * product) * inverse;
    if (passed != nullptr) gradient += read(passed + i, left);
    write(gradient, residual + i, left);
    if (mask != nullptr) write(gradient * read(mask + i, left), branch + i, left);
  }
}

// A part's rows follow one another.
template <typename T>
GIMLET_INLINE void differentiate_part(const gimlet::RmsNormBackward& call, int64_t part) {
  float* const scale_gradient = call.scale_gradients + part * call.width;
  std::fill_n(scale_gradient, call.width, 0.0f);
  for (int64_t row = part * call.rows / call.parts; row < (part + 1) * call.rows / call.parts; ++row) {
    differentiate_row<T>(call, row, scale_gradient);
  }
}

}  // namespace

GIMLET_CLONES void gimlet_norm_row(const gimlet::RmsNorm& call, int64_t row) {
  call.dtype == gimlet::Dtype::kFloat32 ? norm_row<float>(call, row) : norm_row<c10::BFloat16>(call, row);
}

GIMLET_CLONES void gimlet_differentiate_norm(const gimlet::RmsNormBackward& call, int64_t part) {
  call.dtype == gimlet::Dtype::kFloat32 ? differentiate_part<float>(call, part)
                                        : differentiate_part<c10::BFloat16>(call, part);
}

namespace gimlet {

void rms_norm(const RmsNorm& call) {
  share_out(call.rows, kGrain / call.width + 1, [&](int64_t, int64_t row) { gimlet_norm_row(call, row); });
}

void rms_norm_backward(const RmsNormBackward& call) {
  const int64_t numbers = call.rows * call.width / call.parts;
  share_out(call.parts, kGrain / (numbers + 1) + 1, [&](int64_t, int64_t part) { gimlet_differentiate_norm(call, part); });
}

}  // namespace gimlet
