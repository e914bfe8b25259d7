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

float mixed(const AdafactorRule& rule, float moment, float square) {
  return rule.rates->decay * moment + rule.rates->mixing * (square + rule.epsilon);
}

// The sums of one part of the rows.
struct Part {
  int64_t first, end;
  std::vector<float> columns;  // [columns]: squares of the gradient
  double param_squares, update_squares;
};

// The factors of a gradient: those of rows include the gradient's own.
struct Factors {
  std::vector<float> rows, columns;
  float kept, size;
};

}  // namespace

namespace {

// Row `row` of the gradient, in the format of `T`.
template <typename T>
const T* gradients(const AdafactorMatrix& call, int64_t row) {
  return static_cast<const T*>(call.gradient) + row * call.gradient_stride;
}

template <typename T>
GIMLET_INLINE void sum_squares(const AdafactorMatrix& call, float* row_sums, Part& part) {
  const int64_t columns = call.columns;
  float* const sums = part.columns.data();
  for (int64_t row = part.first; row < part.end; ++row) {
    const T* const gradient = gradients<T>(call, row);
    const float* const param = call.param + row * columns;
    Floats of_row = {}, of_params = {};
    for (int64_t i = 0; i < columns; i += kLanes) {
      const int64_t left = columns - i;
      const Floats values = read(gradient + i, left) * call.gradient_factor;
      const Floats squares = values * values;
      of_row += squares;
      write(read(sums + i, left) + squares, sums + i, left);
      if (!call.rule.by_parameter_scale) continue;
      const Floats numbers = read(param + i, left);
      of_params += numbers * numbers;
    }
    row_sums[row] = sum(of_row);
    part.param_squares += sum(of_params);
  }
}

template <typename T>
GIMLET_INLINE void sum_update(const AdafactorMatrix& call, const Factors& factors, Part& part) {
  for (int64_t row = part.first; row < part.end; ++row) {
    const T* const gradient = gradients<T>(call, row);
    Floats squares = {};
    for (int64_t i = 0; i < call.columns; i += kLanes) {
      const int64_t left = call.columns - i;
      const Floats update = read(gradient + i, left) * read(factors.columns.data() + i, left);
      squares += update * update;
    }
    part.update_squares += static_cast<double>(sum(squares)) * factors.rows[row] * factors.rows[row];
  }
}

template <typename T>
GIMLET_INLINE void apply_update(const AdafactorMatrix& call, const Factors& factors, const Part& part) {
  auto* const copies = static_cast<c10::BFloat16*>(call.copy);
  for (int64_t row = part.first; row < part.end; ++row) {
    const T* const gradient = gradients<T>(call, row);
    float* const param = call.param + row * call.columns;
    c10::BFloat16* const copy = copies ? copies + row * call.copy_stride : nullptr;
    for (int64_t i = 0; i < call.columns; i += kLanes) {
      const int64_t left = call.columns - i;
      const Floats update = read(gradient + i, left) * factors.rows[row] * read(factors.columns.data() + i, left);
      const Floats updated = read(param + i, left) * factors.kept - update * factors.size;
      write(updated, param + i, left);
      if (copy) write(updated * call.copy_factor, copy + i, left);
    }
  }
}

bool is_wide(const AdafactorMatrix& call) { return call.gradient_dtype == gimlet::Dtype::kFloat32; }

}  // namespace

GIMLET_CLONES void gimlet_sum_squares(const AdafactorMatrix& call, float* row_sums, Part& part) {
  is_wide(call) ? sum_squares<float>(call, row_sums, part) : sum_squares<c10::BFloat16>(call, row_sums, part);
}

GIMLET_CLONES void gimlet_sum_update(const AdafactorMatrix& call, const Factors& factors, Part& part) {
  is_wide(call) ? sum_update<float>(call, factors, part) : sum_update<c10::BFloat16>(call, factors, part);
}

GIMLET_CLONES void gimlet_apply_update(const AdafactorMatrix& call, const Factors& factors, const Part& part) {
  is_wide(call) ? apply_update<float>(call, factors, part) : apply_update<c10::BFloat16>(call, factors, part);
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

// Mixes sums of squares over `count` numbers into moments, and returns 1 / root(moment), or of moment / mean.
std::vector<float> factors_of(const AdafactorRule& rule, const std::vector<float>& sums, int64_t count, float* moments,
                              bool by_mean) {
  std::vector<float> factors(sums.size());
  double sum = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    sum += moments[i] = mixed(rule, moments[i], sums[i] / static_cast<float>(count));
  }
  const float mean = by_mean ? static_cast<float>(sum / static_cast<double>(sums.size())) : 1.0f;
  for (size_t i = 0; i < sums.size(); ++i) factors[i] = 1.0f / std::sqrt(moments[i] / mean);
  return factors;
}

}  // namespace

void adafactor_matrix(const AdafactorMatrix& call) {
  auto parts = parts_of(call);
  std::vector<float> row_sums(call.rows), column_sums(call.columns);
  for_each(parts, [&](Part& part) { gimlet_sum_squares(call, row_sums.data(), part); });
  for (const Part& part : parts) {
    for (int column = 0; column < call.columns; ++column) column_sums[column] += part.columns[column];
  }
  if (call.squares) *call.squares = static_cast<float>(std::accumulate(row_sums.begin(), row_sums.end(), 0.0));
  Factors factors{factors_of(call.rule, row_sums, call.columns, call.row_moment, call.mean_of_rows),
                  factors_of(call.rule, column_sums, call.rows, call.column_moment, !call.mean_of_rows),
                  call.rule.rates->kept, 0};
  for (float& factor : factors.rows) factor *= call.gradient_factor;
  for_each(parts, [&](Part& part) { gimlet_sum_update(call, factors, part); });
  factors.size = step_size(call.rule, total(parts, &Part::param_squares), total(parts, &Part::update_squares),
                           call.rows * call.columns);
  for_each(parts, [&](const Part& part) { gimlet_apply_update(call, factors, part); });
}

void adafactor_vector(const AdafactorVector& call) {
  double param_squares = 0, update_squares = 0, squares = 0;
  for (int i = 0; i < call.count; ++i) {
    const float gradient = call.gradient[i], square = gradient * gradient;
    call.moment[i] = mixed(call.rule, call.moment[i], square);
    param_squares += static_cast<double>(call.param[i]) * call.param[i];
    update_squares += static_cast<double>(square) / call.moment[i];
    squares += square;
  }
  if (call.squares) *call.squares = static_cast<float>(squares);
  const float size = step_size(call.rule, param_squares, update_squares, call.count), kept = call.rule.rates->kept;
  for (int i = 0; i < call.count; ++i) {
    call.param[i] = call.param[i] * kept - size * call.gradient[i] / std::sqrt(call.moment[i]);
  }
}

}  // namespace gimlet
