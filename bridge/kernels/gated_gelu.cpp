// Gated GELU on the CPU, a row at a time.

#include "../parallel.h"
#include "../vectors.h"
#include "cpu.h"

namespace {

// Numbers that are worth another thread.
constexpr int64_t kGrain = 1 << 13;

template <typename T>
GIMLET_INLINE void multiply_row(const gimlet::GatedGelu& call, int64_t row) {
  const T* const gate = static_cast<const T*>(call.gate) + row * call.gate_stride;
  const T* const linear = static_cast<const T*>(call.linear) + row * call.linear_stride;
  T* const product = static_cast<T*>(call.product) + row * call.width;
  for (int64_t i = 0; i < call.width; i += kLanes) {
    const int64_t left = call.width - i;
    write(rounded<T>(gelu(read(gate + i, left))) * read(linear + i, left), product + i, left);
  }
}

template <typename T>
GIMLET_INLINE void differentiate_row(const gimlet::GatedGeluBackward& call, int64_t row) {
  const T* const gate = static_cast<const T*>(call.gate) + row * call.gate_stride;
  const T* const linear = static_cast<const T*>(call.linear) + row * call.linear_stride;
  const T* const gradients = static_cast<const T*>(call.product_gradient) + row * call.width;
  T* const gate_gradient = static_cast<T*>(call.gate_gradient) + row * call.gate_stride;
  T* const linear_gradient = static_cast<T*>(call.linear_gradient) + row * call.linear_stride;
  for (int64_t i = 0; i < call.width; i += kLanes) {
    const int64_t left = call.width - i;
    const Gelu activated(read(gate + i, left));
    const Floats gradient = read(gradients + i, left);
    write(rounded<T>(gradient * read(linear + i, left)) * activated.slope, gate_gradient + i, left);
    write(gradient * rounded<T>(activated.value), linear_gradient + i, left);
  }
}

}  // namespace

GIMLET_CLONES void gimlet_gate_row(const gimlet::GatedGelu& call, int64_t row) {
  call.dtype == gimlet::Dtype::kFloat32 ? multiply_row<float>(call, row) : multiply_row<c10::BFloat16>(call, row);
}

GIMLET_CLONES void gimlet_differentiate_gate(const gimlet::GatedGeluBackward& call, int64_t row) {
  call.dtype == gimlet::Dtype::kFloat32 ? differentiate_row<float>(call, row)
                                        : differentiate_row<c10::BFloat16>(call, row);
}

namespace gimlet {

void gated_gelu(const GatedGelu& call) {
  share_out(call.rows, kGrain / call.width + 1, [&](int64_t, int64_t row) { gimlet_gate_row(call, row); });
}

void gated_gelu_backward(const GatedGeluBackward& call) {
  share_out(call.rows, kGrain / call.width + 1, [&](int64_t, int64_t row) { gimlet_differentiate_gate(call, row); });
}

}  // namespace gimlet
