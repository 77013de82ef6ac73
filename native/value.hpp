// Values of the six types, exact comparison of integers with floats, and the keys under which values are hashed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
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

// -- hashing -----------------------------------------------------------------------------------------------------------

inline uint64_t mix(uint64_t a, uint64_t b) {
  __uint128_t product = static_cast<__uint128_t>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t hash_a = 0x9E3779B97F4A7C15ULL;
constexpr uint64_t hash_b = 0xD6E8FEB86659FD93ULL;

inline uint64_t hash_word(uint64_t word, uint64_t seed) { return mix(word ^ hash_a, seed ^ hash_b); }

// Up to eight bytes as a number, the missing ones zero; the same text gives the same number on every machine of the same
// byte order. Copying a known number of bytes, twice, is much quicker than copying an unknown one.
inline uint64_t load_bytes(const char* data, size_t size) {
  auto load = [&](auto word, size_t at) {
    std::memcpy(&word, data + at, sizeof word);
    return static_cast<uint64_t>(word);
  };
  if (size >= 8) return load(uint64_t{}, 0);
  if (size >= 4) return load(uint32_t{}, 0) | load(uint32_t{}, size - 4) << (8 * (size - 4));
  if (size >= 2) return load(uint16_t{}, 0) | load(uint16_t{}, size - 2) << (8 * (size - 2));
  return size == 1 ? load(uint8_t{}, 0) : 0;
}

inline uint64_t hash_text(std::string_view text) {
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = hash_b ^ left;
  while (left > 8) {
    hash = mix(hash ^ load_bytes(at, 8), hash_a);
    at += 8;
    left -= 8;
  }
  return mix(hash ^ load_bytes(at, left), hash_a ^ hash_b);
}

// A bit for each pair of neighbouring bytes: all bits of a part are among those of the whole.
inline uint64_t grams_of(std::string_view text) {
  uint64_t grams = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    uint32_t pair = static_cast<uint8_t>(text[i - 1]) | static_cast<uint32_t>(static_cast<uint8_t>(text[i])) << 8;
    grams |= uint64_t{1} << (pair * 0x9E3779B1u >> 26);
  }
  return grams;
}

// What a value is looked up by: equal values have equal keys, whatever their type says (5 and 5.0), and values of
// different families never do.
struct Key {
  uint64_t bits = 0;   // the number, or the first eight bytes of the text
  uint32_t size = 0;   // of the text; for numbers one of the codes below
  const char* text = nullptr;  // all of the text
  uint64_t hash = 0;
};

constexpr uint32_t text_flag = 0x80000000u;
constexpr uint32_t bytes_flag = 0x40000000u;
constexpr uint32_t text_size_mask = 0x3FFFFFFFu;

enum NumberCode : uint32_t { whole_code = 1, real_code, time_code, boolean_code };

inline Key number_key(uint64_t bits, uint32_t code) { return {bits, code, nullptr, hash_word(bits, code)}; }

inline Key text_key(std::string_view text, bool is_bytes, uint64_t hash) {
  uint32_t size = static_cast<uint32_t>(text.size()) | text_flag | (is_bytes ? bytes_flag : 0u);
  return {load_bytes(text.data(), text.size()), size, text.data(), is_bytes ? hash ^ hash_a : hash};
}

inline uint64_t bits_of(double real) {
  uint64_t bits;
  std::memcpy(&bits, &real, 8);
  return bits;
}

inline Key key_of(const Value& value) {
  switch (value.type) {
    case Type::string: return text_key(value.text, false, hash_text(value.text));
    case Type::bytes: return text_key(value.text, true, hash_text(value.text));
    case Type::integer: return number_key(static_cast<uint64_t>(value.integer), whole_code);
    case Type::time: return number_key(static_cast<uint64_t>(value.integer), time_code);
    case Type::boolean: return number_key(static_cast<uint64_t>(value.integer), boolean_code);
    case Type::real: break;
  }
  int64_t integer;
  if (as_integer(value.real, integer)) return number_key(static_cast<uint64_t>(integer), whole_code);
  return number_key(bits_of(value.real), real_code);
}

}  // namespace palio
