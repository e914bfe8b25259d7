// Casts to fp8 against a table of its numbers.

#include "checks.h"

namespace {

using gimlet::Fp8;

struct Format {
  Fp8 format;
  int mantissa, bias, largest;  // the code of the largest finite number
};

constexpr Format kFormats[] = {{Fp8::kE4m3, 3, 7, 0x7e}, {Fp8::kE5m2, 2, 15, 0x7b}};

double decoded(const Format& format, int code) {
  const int exponent = code >> format.mantissa, fraction = code & ((1 << format.mantissa) - 1);
  const int units = exponent == 0 ? fraction : fraction + (1 << format.mantissa);
  return std::ldexp(units, std::max(exponent, 1) - format.bias - format.mantissa);
}

// The code of the nearest number, of two equally near ones the even one.
int nearest(const Format& format, float value) {
  if (std::isnan(value)) return 0x7f;
  const double magnitude = std::fmin(std::fabs(double{value}), decoded(format, format.largest));
  int best = 0;
  for (int code = 1; code <= format.largest; ++code) {
    const double gain = std::fabs(decoded(format, best) - magnitude) - std::fabs(decoded(format, code) - magnitude);
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  return best + (std::signbit(value) ? 0x80 : 0);
}

struct Case {
  int64_t rows;
  int columns;
  Format format;
  bool narrow, transposed, amax;
  std::string name;
};

constexpr float kScale = 3.f, kEarlier = 0.5f;

template <typename T>
Results results(const std::vector<T>& values, const Case& of) {
  const uint8_t unwritten = 0xee;
  std::vector<uint8_t> narrow(of.narrow ? values.size() : 0, unwritten);
  std::vector<uint8_t> transposed(of.transposed ? values.size() : 0, unwritten);
  Loose scale(std::vector<float>{kScale}), amax(std::vector<float>{kEarlier});
  gimlet::CastFp8 call{};
  call.dtype = kDtype<T>;
  call.format = of.format.format;
  call.values = values.data();
  call.scale = scale.data();
  call.amax = of.amax ? amax.data() : nullptr;
  call.narrow = of.narrow ? narrow.data() : nullptr;
  call.transposed = of.transposed ? transposed.data() : nullptr;
  call.rows = of.rows;
  call.columns = of.columns;
  check(of.name, gimlet::cast_fp8(call, nullptr) == cudaSuccess);
  return {{narrow.begin(), narrow.end()}, {transposed.begin(), transposed.end()}, amax.wide()};
}

template <typename T>
void check_case(const Case& of) {
  auto values = random_numbers<T>(of.rows * of.columns, 200);
  for (size_t index = 0; index < values.size(); index += 3) values[index] = narrow<T>(0.1 * random_number());
  // Halfway between neighbours, too large, too small.
  const double special[] = {448, 464, 1e30, -1e30, 17. / 3, 19. / 3, 1e-9, -0.};
  for (size_t index = 0; index < 8; ++index) values[index] = narrow<T>(special[index]);
  Results expected(3);
  double largest = kEarlier;
  for (const T& value : values) {
    if (of.narrow) expected[0].push_back(nearest(of.format, wide(value) * kScale));
    largest = std::fmax(largest, std::fabs(wide(value)));
  }
  for (int64_t index = 0; of.transposed && index < of.rows * of.columns; ++index) {
    const T value = values[index % of.rows * of.columns + index / of.rows];
    expected[1].push_back(nearest(of.format, wide(value) * kScale));
  }
  expected[2].push_back(of.amax ? largest : kEarlier);
  compare(of.name, in_every_order(of.name, [&] { return results(values, of); }), expected, 0);
}

void check_formats(int64_t rows, int columns) {
  for (const Format& format : kFormats) {
    for (const int parts : {7, 5, 2}) {
      const std::string name = "cast_fp8 of " + std::to_string(rows) + " x " + std::to_string(columns);
      const Case of{rows, columns, format, parts / 4 == 1, parts / 2 % 2 == 1, parts % 2 == 1, name};
      check_case<float>(of);
      check_case<__nv_bfloat16>(of);
    }
  }
}

void check_every_code() {
  for (const Format& format : kFormats) {
    // Every number, what lies halfway to the next, and a little less and more.
    std::vector<float> values;
    for (int code = 0; code < format.largest; ++code) {
      const double low = decoded(format, code), high = decoded(format, code + 1), middle = (low + high) / 2;
      for (const double value : {low, middle, middle * (1 - 1e-6), middle * (1 + 1e-6)}) {
        for (const double signed_value : {value, -value}) values.push_back(static_cast<float>(signed_value / kScale));
      }
    }
    values.insert(values.end(), {INFINITY, -INFINITY, NAN, 1, 2, 3, 4, 5});
    const Case of{static_cast<int64_t>(values.size() / 8), 8, format, true, false, false, "cast_fp8 of every number"};
    std::vector<double> expected;
    for (const float value : values) expected.push_back(nearest(format, value * kScale));
    compare(of.name, results(values, of)[0], expected, 0);
  }
}

template <typename T>
void check_largest(int64_t count) {
  const auto values = random_numbers<T>(count, 7);
  double expected = 0;
  for (const T& value : values) expected = std::fmax(expected, std::fabs(wide(value)));
  const std::string name = "largest_magnitude of " + std::to_string(count);
  const auto compute = [&]() -> Results {
    Loose amax(std::vector<float>{0});
    check(name, gimlet::largest_magnitude({kDtype<T>, values.data(), count, amax.data()}, nullptr) == cudaSuccess);
    return {amax.wide()};
  };
  compare(name, in_every_order(name, compute), {{expected}}, 0);
}

}  // namespace

void check_fp8() {
  check_every_code();
  // Packs of 8 rows, and tiles of 128 rows and 64 columns: whole ones, and ends of every kind.
  for (const int64_t rows : {1, 7, 8, 15, 16, 17, 63, 64}) check_formats(rows, 8);
  check_formats(128, 64);
  check_formats(65, 136);
  check_formats(136, 72);
  check_formats(259, 8);
  for (const int64_t count : {8, 1016, 1024, 1032, 5000}) {
    check_largest<float>(count);
    check_largest<__nv_bfloat16>(count);
  }
}
