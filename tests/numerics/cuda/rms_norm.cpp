// Norms against their formulas.

#include "checks.h"

namespace {

// What a call has besides its input.
enum class Parts { kInput, kBranch, kMasked };

struct Shape {
  int64_t rows, rows_per_mask;
  int width, parts;
  std::string name;
};

constexpr float kEpsilon = 1e-6f;

template <typename T>
struct Inputs {
  std::vector<T> residual, branch, mask, scale, normal_gradient, sum_gradient;

  Inputs(const Shape& shape, Parts parts) {
    const int64_t count = shape.rows * shape.width;
    residual = random_numbers<T>(count);
    if (parts != Parts::kInput) branch = random_numbers<T>(count);
    if (parts == Parts::kMasked) mask = random_numbers<T>(count / shape.rows_per_mask);
    scale = random_numbers<T>(shape.width);
    normal_gradient = random_numbers<T>(count);
    if (parts != Parts::kInput) sum_gradient = random_numbers<T>(count);
  }
};

template <typename T>
const T* if_any(const std::vector<T>& numbers) {
  return numbers.empty() ? nullptr : numbers.data();
}

template <typename T>
double factor_of(const Inputs<T>& in, const Shape& shape, int64_t row, int64_t column) {
  return in.mask.empty() ? 1 : wide(in.mask[row / shape.rows_per_mask * shape.width + column]);
}

// Sum, normal and inverse root mean squares.
template <typename T>
Results forward(const Inputs<T>& in, const Shape& shape) {
  std::vector<T> sum = room<T>(in.branch.size()), normal = room<T>(in.residual.size());
  Loose inverse_rms(shape.rows);
  gimlet::RmsNorm call{};
  call.dtype = kDtype<T>;
  call.residual = in.residual.data();
  call.branch = if_any(in.branch);
  call.mask = if_any(in.mask);
  call.scale = in.scale.data();
  call.sum = sum.data();
  call.normal = normal.data();
  call.inverse_rms = inverse_rms.data();
  call.rows = shape.rows;
  call.rows_per_mask = shape.rows_per_mask;
  call.width = shape.width;
  call.epsilon = kEpsilon;
  check(shape.name, gimlet::rms_norm(call, nullptr) == cudaSuccess);
  return {widened(sum), widened(normal), inverse_rms.wide()};
}

template <typename T>
Results expected_forward(const Inputs<T>& in, const Shape& shape) {
  Results all(3);
  for (int64_t row = 0; row < shape.rows; ++row) {
    std::vector<double> sums(shape.width);
    double squares = 0;
    for (int64_t column = 0; column < shape.width; ++column) {
      const int64_t place = row * shape.width + column;
      sums[column] = wide(in.residual[place]);
      if (!in.branch.empty()) {
        sums[column] += wide(in.branch[place]) * factor_of(in, shape, row, column);
        all[0].push_back(sums[column]);
      }
      squares += sums[column] * sums[column];
    }
    all[2].push_back(1 / std::sqrt(squares / shape.width + kEpsilon));
    for (int64_t column = 0; column < shape.width; ++column) {
      all[1].push_back(sums[column] * all[2].back() * wide(in.scale[column]));
    }
  }
  return all;
}

// Gradients of the residual stream, of the branch and of the scale, whose partial sums are added up.
template <typename T>
Results backward(const Inputs<T>& in, const Shape& shape) {
  const Results sums = expected_forward(Inputs<T>{in}, shape);
  Loose inverse_rms(std::vector<float>(sums[2].begin(), sums[2].end()));
  std::vector<T> residual = room<T>(in.residual.size()), branch = room<T>(in.mask.empty() ? 0 : residual.size());
  std::vector<float> scales = room<float>(int64_t{shape.parts} * shape.width);
  gimlet::RmsNormBackward call{};
  call.dtype = kDtype<T>;
  call.normal_gradient = in.normal_gradient.data();
  call.sum_gradient = if_any(in.sum_gradient);
  call.mask = if_any(in.mask);
  call.sum = in.residual.data();
  call.scale = in.scale.data();
  call.inverse_rms = inverse_rms.data();
  call.residual_gradient = residual.data();
  call.branch_gradient = branch.empty() ? nullptr : branch.data();
  call.scale_gradients = scales.data();
  call.rows = shape.rows;
  call.rows_per_mask = shape.rows_per_mask;
  call.parts = shape.parts;
  call.width = shape.width;
  check(shape.name, gimlet::rms_norm_backward(call, nullptr) == cudaSuccess);
  std::vector<double> scale(shape.width);
  for (size_t index = 0; index < scales.size(); ++index) scale[index % shape.width] += scales[index];
  return {widened(residual), widened(branch), scale};
}

template <typename T>
Results expected_backward(const Inputs<T>& in, const Shape& shape) {
  const Results sums = expected_forward(in, shape);
  Results all(3);
  all[2].resize(shape.width);
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t start = row * shape.width;
    const double inverse = sums[2][row];
    double product = 0;
    for (int64_t column = 0; column < shape.width; ++column) {
      const double value = wide(in.residual[start + column]), gradient = wide(in.normal_gradient[start + column]);
      product += value * gradient * wide(in.scale[column]);
      all[2][column] += gradient * value * inverse;
    }
    product *= inverse * inverse / shape.width;
    for (int64_t column = 0; column < shape.width; ++column) {
      const int64_t place = start + column;
      const double scaled = double{wide(in.normal_gradient[place])} * wide(in.scale[column]);
      double gradient = (scaled - wide(in.residual[place]) * product) * inverse;
      if (!in.sum_gradient.empty()) gradient += wide(in.sum_gradient[place]);
      all[0].push_back(gradient);
      if (!in.mask.empty()) all[1].push_back(gradient * factor_of(in, shape, row, column));
    }
  }
  return all;
}

template <typename T>
void check_shape(const Shape& shape) {
  for (const Parts parts : {Parts::kInput, Parts::kBranch, Parts::kMasked}) {
    Inputs<T> in(shape, parts);
    compare(shape.name, in_every_order(shape.name, [&] { return forward(in, shape); }), expected_forward(in, shape),
            kTolerance<T>);
    in.branch.clear();  // the input of the backward pass is their sum
    const std::string name = "gradients of " + shape.name;
    compare(name, in_every_order(name, [&] { return backward(in, shape); }), expected_backward(in, shape),
            kTolerance<T>);
  }
}

}  // namespace

void check_rms_norm() {
  const auto check_both = [](int64_t rows, int64_t rows_per_mask, int width, int parts) {
    const std::string name = "rms_norm of " + std::to_string(rows) + " x " + std::to_string(width);
    const Shape shape{rows, rows_per_mask, width, parts, name};
    check_shape<float>(shape);
    check_shape<__nv_bfloat16>(shape);
  };
  // The last width of each number of packs in a thread, and the first.
  for (const int width : {8, 16, 248, 520, 1024, 1032, 2048, 2056, 4096, 4104, 8192}) check_both(2, 1, width, 1);
  check_both(1, 1, 768, 1);
  check_both(6, 3, 40, 4);
  check_both(3, 3, 72, 5);
}
