// Gated GELU against its formula, with factors in matrices of their own and in halves of one.

#include "checks.h"

namespace {

struct Shape {
  int64_t rows, gate_stride, linear_stride;
  int width;
  std::string name;
};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x))); }

double slope(double x) {
  const double t = std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(M_2_PI) * (1 + 3 * 0.044715 * x * x);
}

// The numbers of the rows, without what is between them.
template <typename T>
std::vector<double> dense(const T* numbers, int64_t stride, const Shape& shape) {
  std::vector<double> all;
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t column = 0; column < shape.width; ++column) all.push_back(wide(numbers[row * stride + column]));
  }
  return all;
}

// Two matrices in the memory of one or of two.
template <typename T>
struct Factors {
  std::vector<T> memory;
  T *gate, *linear;

  Factors(std::vector<T> numbers, const Shape& shape) : memory(std::move(numbers)) {
    gate = memory.data();
    linear = gate + (shape.gate_stride == shape.width ? shape.rows * shape.width : shape.width);
  }
};

template <typename T>
Results results(const Factors<T>& in, const std::vector<T>& product_gradient, const Shape& shape) {
  const int64_t count = shape.rows * shape.width;
  std::vector<T> product = room<T>(count);
  gimlet::GatedGelu call{};
  call.dtype = kDtype<T>;
  call.gate = in.gate;
  call.linear = in.linear;
  call.product = product.data();
  call.rows = shape.rows;
  call.gate_stride = shape.gate_stride;
  call.linear_stride = shape.linear_stride;
  call.width = shape.width;
  check(shape.name, gimlet::gated_gelu(call, nullptr) == cudaSuccess);
  Factors<T> gradients(room<T>(in.memory.size()), shape);
  gimlet::GatedGeluBackward backward{};
  backward.dtype = kDtype<T>;
  backward.product_gradient = product_gradient.data();
  backward.gate = in.gate;
  backward.linear = in.linear;
  backward.gate_gradient = gradients.gate;
  backward.linear_gradient = gradients.linear;
  backward.rows = shape.rows;
  backward.gate_stride = shape.gate_stride;
  backward.linear_stride = shape.linear_stride;
  backward.width = shape.width;
  check(shape.name, gimlet::gated_gelu_backward(backward, nullptr) == cudaSuccess);
  return {widened(product), dense(gradients.gate, shape.gate_stride, shape),
          dense(gradients.linear, shape.linear_stride, shape)};
}

template <typename T>
void check_shape(const Shape& shape) {
  const int64_t count = shape.rows * shape.width;
  const Factors<T> in(random_numbers<T>(2 * count, 4), shape);
  const std::vector<T> gradient = random_numbers<T>(count);
  const auto gate = dense(in.gate, shape.gate_stride, shape), linear = dense(in.linear, shape.linear_stride, shape);
  Results expected(3, std::vector<double>(count));
  for (int64_t index = 0; index < count; ++index) {
    const double of_product = wide(gradient[index]);
    expected[0][index] = gelu(gate[index]) * linear[index];
    expected[1][index] = of_product * linear[index] * slope(gate[index]);
    expected[2][index] = of_product * gelu(gate[index]);
  }
  compare(shape.name, in_every_order(shape.name, [&] { return results(in, gradient, shape); }), expected,
          kTolerance<T>);
}

}  // namespace

void check_gated_gelu() {
  for (const int width : {8, 24, 1032}) {
    for (const int64_t rows : {1, 3, 77}) {
      for (const bool halves : {false, true}) {
        const std::string name = "gated_gelu of " + std::to_string(rows) + " x " + std::to_string(width);
        const int64_t stride = halves ? 2 * width : width;
        const Shape shape{rows, stride, stride, width, name};
        check_shape<float>(shape);
        check_shape<__nv_bfloat16>(shape);
      }
    }
  }
}
