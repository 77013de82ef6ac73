// A strict reader of MessagePack, one token at a time; it keeps no stack and allocates nothing.
//
// Every token it returns is a valid value of the model: integers fit a signed 64-bit word, floats are finite, strings
// are UTF-8, times are whole microseconds in years 1 to 9999. Anything else is a DecodeFailure.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "failure.hpp"
#include "utf8.hpp"

namespace palio {

enum class Kind : uint8_t { nil, boolean, integer, real, string, bytes, time, array, map };

struct Token {
  Kind kind;
  int64_t integer = 0;  // also 0 or 1 for booleans, and microseconds since 1970 for times
  double real = 0;
  std::string_view text;  // of strings and bytes, pointing into the input
  uint32_t count = 0;     // of elements in an array, or of pairs in a map
};

constexpr int64_t min_microseconds = -62135596800000000;  // 0001-01-01T00:00:00Z
constexpr int64_t max_microseconds = 253402300799999999;  // 9999-12-31T23:59:59.999999Z

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool at_end() const { return at_ == end_; }
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }

  Token next() {
    uint8_t lead = *take(1);
    if (lead <= 0x7F) return integer(lead);
    if (lead <= 0x8F) return container(Kind::map, lead & 0x0F);
    if (lead <= 0x9F) return container(Kind::array, lead & 0x0F);
    if (lead <= 0xBF) return string(lead & 0x1F);
    if (lead >= 0xE0) return integer(static_cast<int8_t>(lead));
    switch (lead) {
      case 0xC0: return Token{Kind::nil};
      case 0xC1: throw DecodeFailure("byte 0xc1, which MessagePack does not use");
      case 0xC2: return Token{Kind::boolean, 0};
      case 0xC3: return Token{Kind::boolean, 1};
      case 0xC4: return bytes(number<uint8_t>());
      case 0xC5: return bytes(number<uint16_t>());
      case 0xC6: return bytes(number<uint32_t>());
      case 0xC7: return extension(number<uint8_t>());
      case 0xCA: return real(from_bits<float>(number<uint32_t>()));
      case 0xCB: return real(from_bits<double>(number<uint64_t>()));
      case 0xCC: return integer(number<uint8_t>());
      case 0xCD: return integer(number<uint16_t>());
      case 0xCE: return integer(number<uint32_t>());
      case 0xCF: return unsigned_integer(number<uint64_t>());
      case 0xD0: return integer(static_cast<int8_t>(number<uint8_t>()));
      case 0xD1: return integer(static_cast<int16_t>(number<uint16_t>()));
      case 0xD2: return integer(static_cast<int32_t>(number<uint32_t>()));
      case 0xD3: return integer(static_cast<int64_t>(number<uint64_t>()));
      case 0xD6: return extension(4);
      case 0xD7: return extension(8);
      case 0xD9: return string(number<uint8_t>());
      case 0xDA: return string(number<uint16_t>());
      case 0xDB: return string(number<uint32_t>());
      case 0xDC: return container(Kind::array, number<uint16_t>());
      case 0xDD: return container(Kind::array, number<uint32_t>());
      case 0xDE: return container(Kind::map, number<uint16_t>());
      case 0xDF: return container(Kind::map, number<uint32_t>());
      default: throw DecodeFailure("extension of a type that is not known here; times use type -1");
    }
  }

 private:
  const uint8_t* take(size_t size) {
    if (size > remaining()) throw DecodeFailure("the input ends in the middle of a value");
    const uint8_t* start = at_;
    at_ += size;
    return start;
  }

  template <class Word>
  Word number() {
    const uint8_t* bytes = take(sizeof(Word));
    uint64_t word = 0;
    for (size_t i = 0; i < sizeof(Word); ++i) word = word << 8 | bytes[i];
    return static_cast<Word>(word);
  }

  template <class Real, class Word>
  static Real from_bits(Word word) {
    static_assert(sizeof(Real) == sizeof(Word));
    Real value;
    std::memcpy(&value, &word, sizeof(Real));
    return value;
  }

  static Token integer(int64_t value) { return Token{Kind::integer, value}; }

  static Token unsigned_integer(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw DecodeFailure("integer outside the signed 64-bit range");
    }
    return integer(static_cast<int64_t>(value));
  }

  static Token real(double value) {
    if (!std::isfinite(value)) throw DecodeFailure("float that is not finite");
    return Token{Kind::real, 0, value};
  }

  // Elements take a byte each at least, so a count beyond the input is refused before anyone loops over it.
  Token container(Kind kind, uint32_t count) const {
    uint64_t least = kind == Kind::map ? 2 * static_cast<uint64_t>(count) : count;
    if (least > remaining()) throw DecodeFailure("the input ends in the middle of a value");
    return Token{kind, 0, 0, {}, count};
  }

  Token string(size_t size) {
    const uint8_t* start = take(size);
    if (!is_utf8(start, size)) throw DecodeFailure("string that is not valid UTF-8");
    return Token{Kind::string, 0, 0, view(start, size)};
  }

  Token bytes(size_t size) { return Token{Kind::bytes, 0, 0, view(take(size), size)}; }

  static std::string_view view(const uint8_t* start, size_t size) {
    return {reinterpret_cast<const char*>(start), size};
  }

  // The time stamp of the MessagePack specification, in its three sizes.
  Token extension(size_t size) {
    int8_t type = static_cast<int8_t>(number<uint8_t>());
    if (type != -1 || (size != 4 && size != 8 && size != 12)) {
      throw DecodeFailure("extension of a type that is not known here; times use type -1");
    }
    uint32_t nanoseconds = 0;
    int64_t seconds;
    if (size == 4) {
      seconds = number<uint32_t>();
    } else if (size == 8) {
      uint64_t word = number<uint64_t>();
      nanoseconds = static_cast<uint32_t>(word >> 34);
      seconds = static_cast<int64_t>(word & 0x3FFFFFFFFULL);
    } else {
      nanoseconds = number<uint32_t>();
      seconds = static_cast<int64_t>(number<uint64_t>());
    }
    if (nanoseconds > 999999999) throw DecodeFailure("time with more than a second of nanoseconds");
    if (nanoseconds % 1000 != 0) throw DecodeFailure("time finer than a microsecond");
    if (seconds < min_microseconds / 1000000 || seconds > max_microseconds / 1000000) {
      throw DecodeFailure("time outside years 1 to 9999");
    }
    return Token{Kind::time, seconds * 1000000 + nanoseconds / 1000};
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace palio
