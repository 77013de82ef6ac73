// Decimals of 32 to 256 bits, turned into integers and floats that equal them exactly, or refused.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "value.hpp"

namespace palio {

// Sign and magnitude of a two's complement number; the least word comes first.
struct WideInteger {
  bool negative;
  std::array<uint64_t, 4> words;

  bool is_zero() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  bool is_word() const { return (words[1] | words[2] | words[3]) == 0; }
};

// Arrow keeps decimals in the machine's byte order; like the hashes of value.hpp, this takes it to be little-endian.
inline WideInteger load_wide(const uint8_t* data, size_t width) {
  bool negative = (data[width - 1] & 0x80) != 0;
  WideInteger wide{negative, {}};
  if (negative) wide.words.fill(~uint64_t{0});
  std::memcpy(wide.words.data(), data, width);
  if (negative) {
    bool carry = true;
    for (uint64_t& word : wide.words) {
      word = ~word + (carry ? 1 : 0);
      carry = carry && word == 0;
    }
  }
  return wide;
}

// Divides by five and returns the remainder.
inline uint64_t divide_by_five(WideInteger& wide) {
  uint64_t rest = 0;
  for (size_t i = wide.words.size(); i-- > 0;) {
    __uint128_t part = static_cast<__uint128_t>(rest) << 64 | wide.words[i];
    wide.words[i] = static_cast<uint64_t>(part / 5);
    rest = static_cast<uint64_t>(part % 5);
  }
  return rest;
}

// Shifts a number that is not zero right until it is odd, and returns by how much.
inline int strip_zeros(WideInteger& wide) {
  int stripped = 0;
  while (wide.words[0] == 0) {
    wide.words = {wide.words[1], wide.words[2], wide.words[3], 0};
    stripped += 64;
  }
  int shift = __builtin_ctzll(wide.words[0]);
  if (shift == 0) return stripped;
  for (size_t i = 0; i < wide.words.size(); ++i) {
    uint64_t above = i + 1 < wide.words.size() ? wide.words[i + 1] : 0;
    wide.words[i] = wide.words[i] >> shift | above << (64 - shift);
  }
  return stripped + shift;
}

// 5 to the power of the scale, or zero if that does not fit a word.
inline uint64_t power_of_five(int32_t scale) {
  uint64_t power = 1;
  for (int32_t i = 0; i < scale; ++i) {
    if (__builtin_mul_overflow(power, uint64_t{5}, &power)) return 0;
  }
  return power;
}

// The number times ten to the power of `zeros`, if it is a signed 64-bit integer.
inline bool decimal_to_integer(const WideInteger& wide, int64_t zeros, int64_t& integer) {
  integer = 0;
  if (wide.is_zero()) return true;
  constexpr uint64_t edge = uint64_t{1} << 63;
  if (!wide.is_word() || wide.words[0] > edge || (wide.words[0] == edge && !wide.negative)) return false;
  integer = static_cast<int64_t>(wide.negative ? uint64_t{0} - wide.words[0] : wide.words[0]);
  for (; zeros > 0; --zeros) {  // ends soon: a number other than zero overflows after 18 steps
    if (__builtin_mul_overflow(integer, int64_t{10}, &integer)) return false;
  }
  return true;
}

// The number divided by ten to the power of the (positive) scale, if a float equals it: the fives must cancel, and what
// is left, without its twos, must fit the 53 bits of a float. The exponent always fits, as no more than 110 fives can.
inline bool decimal_to_real(WideInteger wide, int32_t scale, uint64_t fives, double& real) {
  real = 0;
  if (wide.is_zero()) return true;
  if (wide.is_word()) {
    if (fives == 0 || wide.words[0] % fives != 0) return false;
    wide.words[0] /= fives;
  } else {
    for (int32_t i = 0; i < scale; ++i) {
      if (divide_by_five(wide) != 0) return false;
    }
  }
  int twos = strip_zeros(wide);
  if (!wide.is_word() || wide.words[0] >= uint64_t{1} << 53) return false;
  real = std::ldexp(static_cast<double>(wide.words[0]), twos - scale);
  if (wide.negative) real = -real;
  return true;
}

}  // namespace palio
