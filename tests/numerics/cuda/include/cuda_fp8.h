// Stands in for CUDA's header of this name.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda_runtime_api.h"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

// To the nearest, of two equally near ones to the even one; too large numbers to the largest.
inline uint8_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t, __nv_fp8_interpretation_t format) {
  if (std::isnan(value)) return 0x7f;
  const bool wide = format == __NV_E5M2;
  const int mantissa = wide ? 2 : 3, least_exponent = wide ? -14 : -6;
  const double largest = wide ? 57344 : 448;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fmin(std::fabs(value), largest);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), least_exponent);
  // In units of the last place, where the leading one of a normal number is 1 << mantissa.
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, mantissa - exponent)));
  return static_cast<uint8_t>(sign | (((exponent - least_exponent) << mantissa) + units));
}

// The first number becomes the low byte.
inline uint16_t __nv_cvt_float2_to_fp8x2(float2 pair, __nv_saturation_t saturation, __nv_fp8_interpretation_t format) {
  const unsigned high = __nv_cvt_float_to_fp8(pair.y, saturation, format);
  return static_cast<uint16_t>(high << 8 | __nv_cvt_float_to_fp8(pair.x, saturation, format));
}
