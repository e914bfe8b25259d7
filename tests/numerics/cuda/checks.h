// What the checks of the kernels share: random numbers, results in every order of threads, comparison.
#pragma once

#include <cuda_bf16.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels.h"

using emulated::Order;
using gimlet::Dtype;

// Columns of results, each compared as one.
using Results = std::vector<std::vector<double>>;

inline float wide(uint8_t value) { return value; }
inline float wide(float value) { return value; }
inline float wide(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(value);
  } else {
    return __float2bfloat16(static_cast<float>(value));
  }
}

template <typename T>
constexpr Dtype kDtype = std::is_same_v<T, float> ? Dtype::kFloat32 : Dtype::kBfloat16;

// Relative errors of one or two roundings, and of sums in another order.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, float> ? 1e-5 : 1.2e-2;

// A number in [-1, 1).
inline double random_number() {
  static uint64_t state = 1;
  state = state * 6364136223846793005 + 1442695040888963407;
  return static_cast<double>(static_cast<int64_t>(state) >> 11) * 0x1p-52;
}

template <typename T>
std::vector<T> random_numbers(int64_t count, double magnitude = 1) {
  std::vector<T> numbers(count);
  for (T& number : numbers) number = narrow<T>(magnitude * random_number());
  return numbers;
}

// Room for results, full of numbers that no kernel may leave there.
template <typename T>
std::vector<T> room(int64_t count) {
  return std::vector<T>(count, narrow<T>(std::numeric_limits<double>::quiet_NaN()));
}

// Float32 numbers at an address that only such numbers have: not at a multiple of 8 bytes.
class Loose {
 public:
  explicit Loose(std::vector<float> numbers) : numbers_(std::move(numbers)) { numbers_.insert(numbers_.begin(), 0); }
  explicit Loose(int64_t count) : Loose(room<float>(count)) {}
  float* data() { return numbers_.data() + 1; }
  float operator[](int64_t index) const { return numbers_[index + 1]; }
  std::vector<double> wide() const { return {numbers_.begin() + 1, numbers_.end()}; }

 private:
  std::vector<float> numbers_;
};

template <typename T>
std::vector<double> widened(const std::vector<T>& numbers) {
  std::vector<double> all;
  for (const T& number : numbers) all.push_back(wide(number));
  return all;
}

[[noreturn]] inline void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

inline void check(const std::string& what, bool holds) {
  if (!holds) fail(what);
}

inline bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The results of `compute`, which must be the same, bit for bit, in these orders of threads.
inline Results in_orders(const std::vector<Order>& orders, const std::string& what,
                         const std::function<Results()>& compute) {
  Results expected;
  for (const Order order : orders) {
    emulated::order = order;
    const Results found = compute();
    if (expected.empty()) expected = found;
    for (size_t column = 0; column < found.size(); ++column) {
      check(what + ": the order of threads matters",
            std::equal(found[column].begin(), found[column].end(), expected[column].begin(), is_same));
    }
  }
  emulated::order = Order::kForward;
  return expected;
}

inline const std::vector<Order> kEveryOrder = {Order::kForward, Order::kBackward, Order::kShuffled};

inline Results in_every_order(const std::string& what, const std::function<Results()>& compute) {
  return in_orders(kEveryOrder, what, compute);
}

// Compares each number, with an error relative to it and to the size of its neighbours.
inline void compare(const std::string& what, const std::vector<double>& found, const std::vector<double>& expected,
                    double tolerance) {
  check(what + ": other extents", found.size() == expected.size());
  double squares = 0;
  for (const double number : expected) squares += number * number;
  const double size = std::sqrt(squares / static_cast<double>(std::max<size_t>(expected.size(), 1)));
  for (size_t index = 0; index < found.size(); ++index) {
    if (is_same(found[index], expected[index])) continue;
    if (!(std::fabs(found[index] - expected[index]) <= tolerance * (std::fabs(expected[index]) + size))) {
      fail(what + ", number " + std::to_string(index) + ": found " + std::to_string(found[index]) + ", expected " +
           std::to_string(expected[index]));
    }
  }
}

inline void compare(const std::string& what, const Results& found, const Results& expected, double tolerance) {
  for (size_t column = 0; column < expected.size(); ++column) {
    compare(what + ", result " + std::to_string(column), found[column], expected[column], tolerance);
  }
}
