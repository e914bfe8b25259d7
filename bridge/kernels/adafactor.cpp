// Adafactor's updates on the CPU. Parts of a matrix's rows are summed one by one, in an order that does not depend on
// the number of threads.
//
// The gradient is read three times, because the update's factors depend on sums over all of it, and its clip on the
// update; the parameter twice.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "../parallel.h"
#include "../vectors.h"
#include "cpu.h"

namespace {

using gimlet::AdafactorMatrix;
using gimlet::AdafactorRule;
using gimlet::AdafactorVector;

// Numbers that are worth another thread.
constexpr int64_t kGrain = 1 << 16;
constexpr int64_t kMostParts = 64;

float step_size(const AdafactorRule& rule, double param_squares, double update_squares, int64_t count) {
  const auto root = [count](double squares) { return static_cast<float>(std::sqrt(squares / static_cast<double>(count))); };
  float size = rule.rates->learning_rate;
  if (rule.by_parameter_scale) {
    size *= std::min(std::max(root(param_squares), rule.least_scale), rule.greatest_scale);
  }
  return size / std::max(root(update_squares) / rule.threshold, 1.0f);
}

float mixed(const AdafactorRule& rule, float moment, float square) { return rule.rates->decay * moment + rule.rates->mixing * square; }

// The sums of one part of the rows.
struct Part {
  int64_t first, end;
  std::vector<float> columns;  // [columns]: squares of the gradient and epsilons
  double param_squares, update_squares;
};

// The factors of a gradient.
struct Factors {
  std::vector<float> rows, columns;
  float kept, size;
};

}  // namespace

// Writes the means of the rows' squares to `row_means`.
GIMLET_CLONES void gimlet_sum_squares(const AdafactorMatrix& call, float* row_means, Part& part) {
  const int64_t columns = call.columns;
  float* const sums = part.columns.data();
  for (int64_t row = part.first; row < part.end; ++row) {
    const float* const gradient = call.gradient + row * columns;
    const float* const param = call.param + row * columns;
    Floats of_row = {}, of_params = {};
    for (int64_t i = 0; i < columns; i += kLanes) {
      const int64_t left = columns - i;
      const Floats values = read(gradient + i, left);
      const Floats squares = first_of(values * values + call.rule.epsilon, left, 0.0f);
      of_row += squares;
      write(read(sums + i, left) + squares, sums + i, left);
      if (!call.rule.by_parameter_scale) continue;
      const Floats numbers = read(param + i, left);
      of_params += numbers * numbers;
    }
    row_means[row] = sum(of_row) / static_cast<float>(columns);
    part.param_squares += sum(of_params);
  }
}

GIMLET_CLONES void gimlet_sum_update(const AdafactorMatrix& call, const Factors& factors, Part& part) {
  for (int64_t row = part.first; row < part.end; ++row) {
    const float* const gradient = call.gradient + row * call.columns;
    Floats squares = {};
    for (int64_t i = 0; i < call.columns; i += kLanes) {
      const int64_t left = call.columns - i;
      const Floats update = read(gradient + i, left) * read(factors.columns.data() + i, left);
      squares += update * update;
    }
    part.update_squares += static_cast<double>(sum(squares)) * factors.rows[row] * factors.rows[row];
  }
}

GIMLET_CLONES void gimlet_apply_update(const AdafactorMatrix& call, const Factors& factors, const Part& part) {
  for (int64_t row = part.first; row < part.end; ++row) {
    const float* const gradient = call.gradient + row * call.columns;
    float* const param = call.param + row * call.columns;
    for (int64_t i = 0; i < call.columns; i += kLanes) {
      const int64_t left = call.columns - i;
      const Floats update = read(gradient + i, left) * factors.rows[row] * read(factors.columns.data() + i, left);
      write(read(param + i, left) * factors.kept - update * factors.size, param + i, left);
    }
  }
}

namespace gimlet {

namespace {

std::vector<Part> parts_of(const AdafactorMatrix& call) {
  const int64_t count = std::clamp<int64_t>(call.rows * call.columns / kGrain, 1, std::min(kMostParts, call.rows));
  std::vector<Part> parts;
  for (int64_t part = 0; part < count; ++part) {
    parts.push_back({part * call.rows / count, (part + 1) * call.rows / count, std::vector<float>(call.columns), 0, 0});
  }
  return parts;
}

template <typename Body>
void for_each(std::vector<Part>& parts, const Body& body) {
  share_out(static_cast<int64_t>(parts.size()), 1, [&](int64_t, int64_t part) { body(parts[part]); });
}

double total(const std::vector<Part>& parts, double Part::* of) {
  return std::accumulate(parts.begin(), parts.end(), 0.0, [of](double sum, const Part& part) { return sum + part.*of; });
}

// Mixes squares into moments, and returns 1 / root(moment), or of moment / mean.
std::vector<float> factors_of(const AdafactorRule& rule, const std::vector<float>& squares, float* moments, bool by_mean) {
  std::vector<float> factors(squares.size());
  double sum = 0;
  for (size_t i = 0; i < squares.size(); ++i) sum += moments[i] = mixed(rule, moments[i], squares[i]);
  const float mean = by_mean ? static_cast<float>(sum / static_cast<double>(squares.size())) : 1.0f;
  for (size_t i = 0; i < squares.size(); ++i) factors[i] = 1.0f / std::sqrt(moments[i] / mean);
  return factors;
}

}  // namespace

void adafactor_matrix(const AdafactorMatrix& call) {
  auto parts = parts_of(call);
  std::vector<float> row_means(call.rows), column_means(call.columns);
  for_each(parts, [&](Part& part) { gimlet_sum_squares(call, row_means.data(), part); });
  for (int column = 0; column < call.columns; ++column) {
    float sum = 0;
    for (const Part& part : parts) sum += part.columns[column];
    column_means[column] = sum / static_cast<float>(call.rows);
  }
  Factors factors{factors_of(call.rule, row_means, call.row_moment, call.mean_of_rows),
                  factors_of(call.rule, column_means, call.column_moment, !call.mean_of_rows), call.rule.rates->kept, 0};
  for_each(parts, [&](Part& part) { gimlet_sum_update(call, factors, part); });
  factors.size = step_size(call.rule, total(parts, &Part::param_squares), total(parts, &Part::update_squares),
                           call.rows * call.columns);
  for_each(parts, [&](const Part& part) { gimlet_apply_update(call, factors, part); });
}

void adafactor_vector(const AdafactorVector& call) {
  double param_squares = 0, update_squares = 0;
  for (int i = 0; i < call.count; ++i) {
    const float gradient = call.gradient[i];
    call.moment[i] = mixed(call.rule, call.moment[i], gradient * gradient + call.rule.epsilon);
    param_squares += static_cast<double>(call.param[i]) * call.param[i];
    update_squares += static_cast<double>(gradient) * gradient / call.moment[i];
  }
  const float size = step_size(call.rule, param_squares, update_squares, call.count), kept = call.rule.rates->kept;
  for (int i = 0; i < call.count; ++i) {
    call.param[i] = call.param[i] * kept - size * call.gradient[i] / std::sqrt(call.moment[i]);
  }
}

}  // namespace gimlet
