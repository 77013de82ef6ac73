// Writes MessagePack, each value in its shortest form, at the end of a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace palio {

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void nil() { byte(0xC0); }

  void array(uint8_t count) { byte(0x90 | count); }  // of up to 15

  void integer(int64_t value) {
    if (value >= -32 && value <= 127) return byte(static_cast<uint8_t>(value));
    const uint64_t word = static_cast<uint64_t>(value);
    if (value >= 0) {
      if (value <= 0xFF) return number(0xCC, word, 1);
      if (value <= 0xFFFF) return number(0xCD, word, 2);
      if (value <= 0xFFFFFFFF) return number(0xCE, word, 4);
      return number(0xCF, word, 8);
    }
    if (value >= INT8_MIN) return number(0xD0, word, 1);
    if (value >= INT16_MIN) return number(0xD1, word, 2);
    if (value >= INT32_MIN) return number(0xD2, word, 4);
    number(0xD3, word, 8);
  }

  void text(std::string_view text) {
    const size_t size = text.size();
    if (size <= 31) {
      byte(0xA0 | static_cast<uint8_t>(size));
    } else if (size <= 0xFF) {
      number(0xD9, size, 1);
    } else if (size <= 0xFFFF) {
      number(0xDA, size, 2);
    } else {
      number(0xDB, size, 4);
    }
    out_.append(text);
  }

  // An instant in microseconds since 1970, in the smallest of the three sizes of a time stamp.
  void time(int64_t microseconds) {
    int64_t seconds = microseconds / 1'000'000, rest = microseconds % 1'000'000;
    if (rest < 0) --seconds, rest += 1'000'000;
    const uint64_t nanoseconds = static_cast<uint64_t>(rest) * 1'000;
    if (seconds >> 34 == 0) {
      if (nanoseconds == 0 && seconds >> 32 == 0) {
        byte(0xD6);
        return number(0xFF, static_cast<uint64_t>(seconds), 4);
      }
      byte(0xD7);
      return number(0xFF, nanoseconds << 34 | static_cast<uint64_t>(seconds), 8);
    }
    byte(0xC7), byte(12);
    number(0xFF, nanoseconds, 4);
    put(static_cast<uint64_t>(seconds), 8);
  }

 private:
  void byte(uint8_t value) { out_.push_back(static_cast<char>(value)); }

  void number(uint8_t lead, uint64_t word, int bytes) {
    byte(lead);
    put(word, bytes);
  }

  void put(uint64_t word, int bytes) {
    char buffer[8];
    for (int i = 0; i < bytes; ++i) buffer[i] = static_cast<char>(word >> (8 * (bytes - 1 - i)));
    out_.append(buffer, static_cast<size_t>(bytes));
  }

  std::string& out_;
};

}  // namespace palio
