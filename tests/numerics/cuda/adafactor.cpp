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

struct Matrix {
  std::vector<float> gradient, param, row_moment, column_moment;
  bool mean_of_rows;

  Matrix(int64_t rows, int columns, bool mean_of_rows)
      : gradient(random_numbers<float>(rows * columns)),
        param(random_numbers<float>(rows * columns, 0.1)),
        row_moment(random_numbers<float>(rows)),
        column_moment(random_numbers<float>(columns)),
        mean_of_rows(mean_of_rows) {
    for (float& moment : row_moment) moment *= moment;
    for (float& moment : column_moment) moment *= moment;
  }

  int64_t rows() const { return static_cast<int64_t>(row_moment.size()); }
  int columns() const { return static_cast<int>(column_moment.size()); }
};

Results results(const AdafactorRule& rule, const Matrix& in, const std::string& name) {
  std::vector<float> param = in.param, column_moment = in.column_moment;
  Loose row_moment(in.row_moment);
  std::vector<float> workspace = room<float>(gimlet::adafactor_workspace(in.rows(), in.columns()));
  gimlet::AdafactorMatrix call{};
  call.rule = rule;
  call.gradient = in.gradient.data();
  call.param = param.data();
  call.row_moment = row_moment.data();
  call.column_moment = column_moment.data();
  call.workspace = workspace.data();
  call.rows = in.rows();
  call.columns = in.columns();
  call.mean_of_rows = in.mean_of_rows;
  check(name, gimlet::adafactor_matrix(call, nullptr) == cudaSuccess);
  return {widened(param), row_moment.wide(), widened(column_moment)};
}

Results expected(const AdafactorRule& rule, const Matrix& in) {
  const int64_t rows = in.rows(), columns = in.columns();
  std::vector<double> of_rows(rows), of_columns(columns);
  for (int64_t index = 0; index < rows * columns; ++index) {
    const double square = double{in.gradient[index]} * in.gradient[index] + rule.epsilon;
    of_rows[index / columns] += square / static_cast<double>(columns);
    of_columns[index % columns] += square / static_cast<double>(rows);
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
    update.push_back(in.gradient[index] / std::sqrt(moment));
  }
  return {updated(rule, in.param, update), of_rows, of_columns};
}

void check_matrix(const Rule& rule, const Matrix& in, const std::vector<Order>& orders) {
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
    Loose gradients(gradient), params(param), moments(moment);
    check(name, gimlet::adafactor_vector({rule.rule, gradients.data(), params.data(), moments.data(), count},
                                         nullptr) == cudaSuccess);
    return {params.wide(), moments.wide()};
  };
  std::vector<double> moments, update;
  for (int index = 0; index < count; ++index) {
    const double square = double{gradient[index]} * gradient[index] + rule.rule.epsilon;
    moments.push_back(rule.rule.rates->decay * moment[index] + rule.rule.rates->mixing * square);
    update.push_back(gradient[index] / std::sqrt(moments.back()));
  }
  compare(name, in_every_order(name, compute), {updated(rule.rule, param, update), moments}, 2e-5);
}

}  // namespace

void check_adafactor() {
  for (const Rule& rule : kRules) {
    for (const bool mean_of_rows : {false, true}) {
      check_matrix(rule, Matrix(1, 8, mean_of_rows), kEveryOrder);
      check_matrix(rule, Matrix(33, 520, mean_of_rows), kEveryOrder);
    }
    for (const int count : {1, 8, 2500}) check_vector(rule, count);
  }
  // More rows than parts of the fewest rows.
  check_matrix(kRules[0], Matrix(4100, 8, true), {Order::kForward});
}
