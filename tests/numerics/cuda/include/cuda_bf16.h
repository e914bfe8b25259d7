// Stands in for CUDA's header of this name.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
  uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

// To the nearest, of two equally near ones to the even one.
inline __nv_bfloat16 __float2bfloat16(float value) {
  if (std::isnan(value)) return {0x7fff};
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
