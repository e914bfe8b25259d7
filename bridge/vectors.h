// Sixteen numbers at a time, in the registers that the CPU has.

#pragma once

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

// Stands before a function that is not a template: it is compiled for several CPUs, and the loader
// chooses. GCC supports these levels since version 12.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__)
#define GIMLET_HAS_CLONES 1
#define GIMLET_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GIMLET_CLONES
#endif
// Functions called by such a function are compiled as part of it.
#define GIMLET_INLINE inline __attribute__((always_inline))

// Functions that take or return these are part of their callers, so their calling convention does
// not matter.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

constexpr int64_t kLanes = 16;
using Floats = float __attribute__((vector_size(64)));
using Bits = uint32_t __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));
using Bytes = uint8_t __attribute__((vector_size(16)));

// Memory for so many numbers, which grows to the largest count.
template <typename N>
N* sized(std::vector<N>& memory, int64_t count) {
  if (static_cast<int64_t>(memory.size()) < count) memory.resize(count);
  return memory.data();
}

constexpr int64_t rounded_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

// The number of bytes read between asking for memory and reading it.
constexpr int64_t kBytesAhead = 1 << 14;

// Prefetches `bytes` bytes into the second cache.
GIMLET_INLINE void ask_for(const void* there, int64_t bytes) {
  for (int64_t byte = 0; byte < bytes; byte += 64) {
    __builtin_prefetch(static_cast<const char*>(there) + byte, 0, 2);
  }
}

// Prefetches the bytes that lie `kBytesAhead` behind `here`.
GIMLET_INLINE void ask_ahead(const void* here, int64_t bytes) {
  ask_for(static_cast<const char*>(here) + kBytesAhead, bytes);
}

GIMLET_INLINE Floats floats(const Bits& bits) {
  Floats values;
  std::memcpy(&values, &bits, sizeof(values));
  return values;
}

GIMLET_INLINE Floats read(const float* from) {
  Floats values;
  std::memcpy(&values, from, sizeof(values));
  return values;
}

GIMLET_INLINE Floats read(const c10::BFloat16* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  return floats(__builtin_convertvector(halves, Bits) << 16);
}

// Ones and zeros, widened by way of halves: GCC 12 widens bytes to words one by one.
GIMLET_INLINE Bits read(const bool* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(__builtin_convertvector(bytes, Halves), Bits);
}

// The bits of bfloat16, to the nearest and half-way to even, in the upper halves. A NaN stays one.
GIMLET_INLINE Bits narrow_bits(const Floats& values) {
  Bits bits;
  std::memcpy(&bits, &values, sizeof(bits));
  const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return values == values ? rounded & 0xffff0000u : Bits{} + 0x7fc00000u;
}

GIMLET_INLINE void write(const Floats& values, float* to) { std::memcpy(to, &values, sizeof(values)); }

GIMLET_INLINE void write(const Floats& values, c10::BFloat16* to) {
  const Halves halves = __builtin_convertvector(narrow_bits(values) >> 16, Halves);
  std::memcpy(to, &halves, sizeof(halves));
}

// Reads `count` numbers, at most all lanes; the rest are zeros.
template <typename T>
GIMLET_INLINE auto read(const T* from, int64_t count) {
  if (count >= kLanes) return read(from);
  T some[kLanes] = {};
  std::copy_n(from, count, some);
  return read(some);
}

// The first `count` numbers; the rest are `rest`.
GIMLET_INLINE Floats first_of(const Floats& values, int64_t count, float rest) {
  if (count >= kLanes) return values;
  const Ints lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lanes < static_cast<int32_t>(count) ? values : Floats{} + rest;
}

GIMLET_INLINE float largest(const Floats& values) {
  using Half = float __attribute__((vector_size(32)));
  Half halves[2];
  std::memcpy(halves, &values, sizeof(values));
  const Half half = halves[0] > halves[1] ? halves[0] : halves[1];
  float found = half[0];
  for (int64_t i = 1; i < kLanes / 2; ++i) found = std::max(found, half[i]);
  return found;
}

template <typename T>
GIMLET_INLINE void write(const Floats& values, T* to, int64_t count) {
  if (count >= kLanes) return write(values, to);
  T some[kLanes];
  write(values, some);
  std::copy_n(some, count, to);
}

// The values after writing and reading.
template <typename T>
GIMLET_INLINE Floats rounded(const Floats& values);
template <>
GIMLET_INLINE Floats rounded<float>(const Floats& values) { return values; }
template <>
GIMLET_INLINE Floats rounded<c10::BFloat16>(const Floats& values) { return floats(narrow_bits(values)); }

using Quarter = float __attribute__((vector_size(16)));

// Sums of every fourth number.
GIMLET_INLINE Quarter quarter(const Floats& values) {
  using Half = float __attribute__((vector_size(32)));
  Half halves[2];
  std::memcpy(halves, &values, sizeof(values));
  const Half half = halves[0] + halves[1];
  Quarter quarters[2];
  std::memcpy(quarters, &half, sizeof(half));
  return quarters[0] + quarters[1];
}

GIMLET_INLINE float sum(const Floats& values) {
  const Quarter some = quarter(values);
  return (some[0] + some[1]) + (some[2] + some[3]);
}

// e^x for x <= 0, with a relative error of about 1e-7; zero below the smallest normal number.
GIMLET_INLINE Floats exponential(const Floats& of) {
  const Floats least = Floats{} - 87.0f, magic = Floats{} + 12582912.0f;  // 1.5 * 2^23
  const auto vanishes = of < least;
  const Floats x = vanishes ? least : of;
  // x = count * log(2) + rest, with log(2) in two parts, the first of few bits.
  const Floats count = (x * 1.44269504f + magic) - magic;
  const Floats rest = (x - count * 0.693359375f) + count * 2.12194440e-4f;
  Floats series = Floats{} + 1.0f / 5040.0f;
  for (const float term : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    series = series * rest + term;
  }
  const Bits power = __builtin_convertvector(__builtin_convertvector(count, decltype(vanishes)) + 127, Bits) << 23;
  return vanishes ? Floats{} : series * floats(power);
}

// The tanh approximation of GELU (Hendrycks & Gimpel 2016, arXiv:1606.08415), 0.5 x (1 + tanh u) = x / (1 + e^-2u), and
// its slope.
struct Gelu {
  Floats value, slope;

  GIMLET_INLINE explicit Gelu(const Floats& x) {
    constexpr float kScale = 1.5957691216f, kCubic = 0.044715f;  // 2 sqrt(2 / pi)
    const Floats square = x * x, twice = x * (square * kCubic + 1.0f) * kScale;
    const auto negative = twice < 0.0f;
    const Floats power = exponential(negative ? twice : -twice);
    const Floats share = (negative ? power : Floats{} + 1.0f) / (1.0f + power);
    value = x * share;
    slope = share + value * (1.0f - share) * (square * (3.0f * kCubic) + 1.0f) * kScale;
  }
};

GIMLET_INLINE Floats gelu(const Floats& x) { return Gelu(x).value; }

// Converts scores to weights before their division by their sum, which is returned. `count` is a
// multiple of the lanes.
GIMLET_INLINE float weigh(float* scores, int64_t count) {
  Floats most = read(scores);
  for (int64_t i = kLanes; i < count; i += kLanes) {
    const Floats some = read(scores + i);
    most = some > most ? some : most;
  }
  const float subtracted = largest(most);
  Floats total = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    const Floats weights = exponential(read(scores + i) - subtracted);
    write(weights, scores + i);
    total += weights;
  }
  return sum(total);
}
