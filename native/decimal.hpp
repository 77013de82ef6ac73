// Decimals of 32 to 256 bits, turned into the integers that equal them or the floats nearest to them, or refused.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>

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

// Divides by a number below 2**60 and returns the remainder.
inline uint64_t divide(WideInteger& wide, uint64_t divisor) {
  uint64_t rest = 0;
  for (size_t i = wide.words.size(); i-- > 0;) {
    __uint128_t part = static_cast<__uint128_t>(rest) << 64 | wide.words[i];
    wide.words[i] = static_cast<uint64_t>(part / divisor);
    rest = static_cast<uint64_t>(part % divisor);
  }
  return rest;
}

constexpr uint64_t end_of_short = 1000000000000000;  // 10**15: floats tell numbers of up to 15 digits apart

// Takes zeros off the end until at most 15 digits are left, and says how many; -1 if there are more digits.
inline int strip_to_short(WideInteger& wide) {
  int zeros = 0;
  for (; !wide.is_word() || wide.words[0] >= end_of_short; ++zeros) {
    if (divide(wide, 10) != 0) return -1;
  }
  return zeros;
}

// The magnitude times ten to a negative power, read from its digits: the nearest float, zero if it is less than all.
inline double nearest_real(WideInteger wide, int64_t scale) {
  constexpr uint64_t part = 1000000000000000000;
  char digits[5 * 18 + 24];
  char* const end = digits + sizeof digits;
  char* exponent = end - 24;
  char* first = exponent;
  for (uint64_t rest = divide(wide, part); rest != 0 || !wide.is_zero(); rest = divide(wide, part)) {
    for (int i = 0; i < 18; ++i, rest /= 10) *--first = static_cast<char>('0' + rest % 10);
  }
  *exponent++ = 'e';
  char* last = std::to_chars(exponent, end, -scale).ptr;
  double real = 0;
  return std::from_chars(first, last, real).ec == std::errc() ? real : 0;  // nothing is too large for a float
}

constexpr int64_t exact_powers = 22;  // ten to these powers is a float, so that one operation rounds once
inline constexpr double powers_of_ten[exact_powers + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                           1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                           1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// The number divided by ten to the power of the (positive) scale, as the nearest float. Different numbers could be the
// same float if they had more than 15 digits (without zeros at the end), were beyond 2**53, or too small for all the bits
// of a float. Such numbers are refused, or rounded like the others.
inline bool decimal_to_real(WideInteger wide, int32_t scale, bool rounds, double& real) {
  real = 0;
  if (wide.is_zero()) return true;
  const WideInteger whole = wide;
  const int zeros = strip_to_short(wide);
  const int64_t places = static_cast<int64_t>(scale) - zeros;  // after the point, of what is left
  bool is_short = zeros >= 0 && places >= -exact_powers;
  if (is_short && places <= exact_powers) {
    const double digits = static_cast<double>(wide.words[0]);
    real = places >= 0 ? digits / powers_of_ten[places] : digits * powers_of_ten[-places];
    is_short = real <= two_to_53;
  }
  if (!is_short || places > exact_powers) {
    if (!is_short && !rounds) return false;
    real = nearest_real(whole, scale);
    is_short = is_short && real >= std::numeric_limits<double>::min();
  }
  if (wide.negative) real = -real;
  return is_short || rounds;
}

}  // namespace palio
