// Adafactor's updates against their formulas.

#include "checks.h"

namespace {

using gimlet::AdafactorRates;
using gimlet::AdafactorRule;

struct Rule {
  AdafactorRule rule;
  const char* name;
};

const AdafactorRates kLater = {0.01f, 0.8f, 0.2f, 1.f}, kFirst = {0.01f, 0.f, 1.f, 1.f}, kDecaying = {0.01f, 0.8f, 0.2f, 0.9f};

const Rule kRules[] = {
    {{&kLater, 1e-8f, true, 1e-3f, INFINITY, 1.f}, "plain"},
    {{&kFirst, 1e-8f, true, 1e-3f, 0.02f, INFINITY}, "bounded"},
    {{&kDecaying, 1e-8f, false, 1e-3f, INFINITY, 0.1f}, "decayed"},
};

double mean_square(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number * number;
  return sum / static_cast<double>(numbers.size());
}

// The parameter after an update by the gradient that the moments have divided.
std::vector<double> updated(const AdafactorRule& rule, const std::vector<float>& param,
                            const std::vector<double>& update) {
  double size = rule.rates->learning_rate;
  if (rule.by_parameter_scale) {
    const double scale = std::sqrt(mean_square(widened(param)));
    size *= std::fmin(std::fmax(scale, rule.least_scale), rule.greatest_scale);
  }
  size /= std::fmax(std::sqrt(mean_square(update)) / rule.threshold, 1.0);
  std::vector<double> all;
  for (size_t index = 0; index < param.size(); ++index) all.push_back(param[index] * rule.rates->kept - size * update[index]);
  return all;
}

// Numbers in a matrix of which another part has `kBeside` columns.
constexpr int kBeside = 16;

constexpr float kGradientFactor = 0.5f, kCopyFactor = 0.25f;

template <typename T>
struct Matrix {
  std::vector<T> gradient;  // [rows, columns + kBeside], of which the last columns count
  std::vector<float> param, row_moment, column_moment;
  bool mean_of_rows;

  Matrix(int64_t rows, int columns, bool mean_of_rows)
      : gradient(random_numbers<T>(rows * (columns + kBeside))),
        param(random_numbers<float>(rows * columns, 0.1)),
        row_moment(random_numbers<float>(rows)),
        column_moment(random_numbers<float>(columns)),
        mean_of_rows(mean_of_rows) {
    for (float& moment : row_moment) moment *= moment;
    for (float& moment : column_moment) moment *= moment;
  }

  int64_t rows() const { return static_cast<int64_t>(row_moment.size()); }
  int columns() const { return static_cast<int>(column_moment.size()); }
  int stride() const { return columns() + kBeside; }
  double gradient_at(int64_t row, int column) const {
    return double{kGradientFactor} * wide(gradient[row * stride() + kBeside + column]);
  }
};

template <typename T>
Results results(const AdafactorRule& rule, const Matrix<T>& in, const std::string& name) {
  std::vector<float> param = in.param, column_moment = in.column_moment;
  std::vector<__nv_bfloat16> copy(in.rows() * in.stride(), narrow<__nv_bfloat16>(7.f));
  Loose row_moment(in.row_moment), squares(room<float>(1));
  std::vector<float> workspace = room<float>(gimlet::adafactor_workspace(in.rows(), in.columns()));
  gimlet::AdafactorMatrix call{};
  call.rule = rule;
  call.gradient_dtype = kDtype<T>;
  call.gradient = in.gradient.data() + kBeside;
  call.param = param.data();
  call.row_moment = row_moment.data();
  call.column_moment = column_moment.data();
  call.squares = squares.data();
  // The same kernels update what has no copy.
  call.copy = in.mean_of_rows ? copy.data() : nullptr;
  call.workspace = workspace.data();
  call.gradient_factor = kGradientFactor;
  call.copy_factor = kCopyFactor;
  call.rows = in.rows();
  call.gradient_stride = call.copy_stride = in.stride();
  call.columns = in.columns();
  call.mean_of_rows = in.mean_of_rows;
  check(name, gimlet::adafactor_matrix(call, nullptr) == cudaSuccess);
  for (int64_t index = 0; index < static_cast<int64_t>(copy.size()); ++index) {
    const int64_t row = index / in.stride(), column = index % in.stride();
    const bool is_written = call.copy && column < in.columns();
    const float expected = is_written ? param[row * in.columns() + column] * kCopyFactor : 7.f;
    check(name + ": its copy", wide(copy[index]) == wide(narrow<__nv_bfloat16>(expected)));
  }
  return {widened(param), row_moment.wide(), widened(column_moment), squares.wide()};
}

template <typename T>
Results expected(const AdafactorRule& rule, const Matrix<T>& in) {
  const int64_t rows = in.rows(), columns = in.columns();
  std::vector<double> of_rows(rows), of_columns(columns);
  double squares = 0;
  for (int64_t index = 0; index < rows * columns; ++index) {
    const double gradient = in.gradient_at(index / columns, index % columns), square = gradient * gradient;
    squares += square;
    of_rows[index / columns] += (square + rule.epsilon) / static_cast<double>(columns);
    of_columns[index % columns] += (square + rule.epsilon) / static_cast<double>(rows);
  }
  double row_mean = 0, column_mean = 0;
  for (int64_t row = 0; row < rows; ++row) {
    of_rows[row] = rule.rates->decay * in.row_moment[row] + rule.rates->mixing * of_rows[row];
    row_mean += of_rows[row] / static_cast<double>(rows);
  }
  for (int64_t column = 0; column < columns; ++column) {
    of_columns[column] = rule.rates->decay * in.column_moment[column] + rule.rates->mixing * of_columns[column];
    column_mean += of_columns[column] / static_cast<double>(columns);
  }
  const double mean = in.mean_of_rows ? row_mean : column_mean;
  std::vector<double> update;
  for (int64_t index = 0; index < rows * columns; ++index) {
    const double moment = of_rows[index / columns] * of_columns[index % columns] / mean;
    update.push_back(in.gradient_at(index / columns, index % columns) / std::sqrt(moment));
  }
  return {updated(rule, in.param, update), of_rows, of_columns, {squares}};
}

template <typename T>
void check_matrix(const Rule& rule, const Matrix<T>& in, const std::vector<Order>& orders) {
  const std::string name =
      std::string(rule.name) + " adafactor of " + std::to_string(in.rows()) + " x " + std::to_string(in.columns());
  const auto compute = [&] { return results(rule.rule, in, name); };
  compare(name, in_orders(orders, name, compute), expected(rule.rule, in), 2e-5);
}

void check_vector(const Rule& rule, int count) {
  const std::string name = std::string(rule.name) + " adafactor of " + std::to_string(count);
  const auto gradient = random_numbers<float>(count), param = random_numbers<float>(count, 0.1);
  auto moment = random_numbers<float>(count);
  for (float& number : moment) number *= number;
  const auto compute = [&]() -> Results {
    Loose gradients(gradient), params(param), moments(moment), squares(room<float>(1));
    const gimlet::AdafactorVector call{rule.rule, gradients.data(), params.data(), moments.data(), squares.data(), count};
    check(name, gimlet::adafactor_vector(call, nullptr) == cudaSuccess);
    return {params.wide(), moments.wide(), squares.wide()};
  };
  std::vector<double> moments, update;
  double squares = 0;
  for (int index = 0; index < count; ++index) {
    const double square = double{gradient[index]} * gradient[index];
    squares += square;
    moments.push_back(rule.rule.rates->decay * moment[index] + rule.rule.rates->mixing * (square + rule.rule.epsilon));
    update.push_back(gradient[index] / std::sqrt(moments.back()));
  }
  compare(name, in_every_order(name, compute), {updated(rule.rule, param, update), moments, {squares}}, 2e-5);
}

}  // namespace

void check_adafactor() {
  for (const Rule& rule : kRules) {
    for (const bool mean_of_rows : {false, true}) {
      check_matrix(rule, Matrix<float>(1, 8, mean_of_rows), kEveryOrder);
      check_matrix(rule, Matrix<float>(33, 520, mean_of_rows), kEveryOrder);
    }
    check_matrix(rule, Matrix<__nv_bfloat16>(1, 8, false), kEveryOrder);
    check_matrix(rule, Matrix<__nv_bfloat16>(33, 520, true), kEveryOrder);
    for (const int count : {1, 8, 2500}) check_vector(rule, count);
  }
  // More rows than parts of the fewest rows.
  check_matrix(kRules[0], Matrix<float>(4100, 8, true), {Order::kForward});
  check_matrix(kRules[0], Matrix<__nv_bfloat16>(4100, 8, true), {Order::kForward});
}
