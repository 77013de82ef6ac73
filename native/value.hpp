// Values of the six types, and exact comparison of integers with floats.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace palio {

enum class Type : uint8_t { boolean, integer, real, time, bytes, string };

using TypeMask = uint8_t;

constexpr TypeMask mask_of(Type type) { return static_cast<TypeMask>(1u << static_cast<unsigned>(type)); }

constexpr TypeMask number_types = mask_of(Type::integer) | mask_of(Type::real);
constexpr TypeMask text_types = mask_of(Type::string) | mask_of(Type::bytes);
constexpr TypeMask all_types = 0x3F;

struct Value {
  Type type = Type::boolean;
  int64_t integer = 0;  // booleans as 0 or 1, integers, times in microseconds since 1970
  double real = 0;
  std::string_view text;  // strings as UTF-8, whose byte order is the order of code points; bytes

  static Value of_boolean(bool value) { return {Type::boolean, value ? 1 : 0, 0, {}}; }
  static Value of_integer(int64_t value) { return {Type::integer, value, 0, {}}; }
  static Value of_real(double value) { return {Type::real, 0, value, {}}; }
  static Value of_time(int64_t microseconds) { return {Type::time, microseconds, 0, {}}; }
  static Value of_string(std::string_view text) { return {Type::string, 0, 0, text}; }
  static Value of_bytes(std::string_view text) { return {Type::bytes, 0, 0, text}; }

  bool is_text() const { return (mask_of(type) & text_types) != 0; }
};

constexpr double two_to_53 = 9007199254740992.0;
constexpr double two_to_63 = 9223372036854775808.0;

// -1, 0 or 1 as the integer is below, equal to or above the (finite) float; exact, where a conversion would round.
inline int compare(int64_t integer, double real) {
  if (real >= two_to_63) return -1;
  if (real < -two_to_63) return 1;
  int64_t whole = static_cast<int64_t>(real);  // towards zero
  if (integer != whole) return integer < whole ? -1 : 1;
  double rest = real - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

// Whether the float is one of the 64-bit integers, and which.
inline bool as_integer(double real, int64_t& integer) {
  if (!(real >= -two_to_63 && real < two_to_63)) return false;
  int64_t whole = static_cast<int64_t>(real);
  if (static_cast<double>(whole) != real) return false;
  integer = whole;
  return true;
}

}  // namespace palio
