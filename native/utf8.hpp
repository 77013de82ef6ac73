// Strict UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace palio {

inline bool is_utf8(const uint8_t* at, size_t size) {
  const uint8_t* end = at + size;
  while (at < end) {
    if (end - at >= 8) {  // most text is ASCII: take eight bytes at once
      uint64_t chunk;
      std::memcpy(&chunk, at, 8);
      if ((chunk & 0x8080808080808080ULL) == 0) {
        at += 8;
        continue;
      }
    }
    uint8_t first = *at++;
    if (first < 0x80) continue;
    int following;
    uint8_t low = 0x80, high = 0xBF;  // bounds of the second byte, which rule out long forms and surrogates
    if (first >= 0xC2 && first <= 0xDF) {
      following = 1;
    } else if (first >= 0xE0 && first <= 0xEF) {
      following = 2;
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
      following = 3;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    } else {
      return false;
    }
    if (end - at < following || *at < low || *at > high) return false;
    for (int i = 1; i < following; ++i) {
      if ((at[i] & 0xC0) != 0x80) return false;
    }
    at += following;
  }
  return true;
}

}  // namespace palio
