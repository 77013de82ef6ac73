// Hashes, and the keys under which values are looked up.
//
// Whoever may choose the literals of filters could choose them so that all their hashes are the same, and every look-up
// would walk through all of them. So the hashes of an index depend on its seed, which such people do not know.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "value.hpp"

namespace palio {

inline uint64_t mix(uint64_t a, uint64_t b) {
  __uint128_t product = static_cast<__uint128_t>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t hash_a = 0x9E3779B97F4A7C15ULL;

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

inline Key text_key(std::string_view text, bool is_bytes, uint64_t hash) {
  uint32_t size = static_cast<uint32_t>(text.size()) | text_flag | (is_bytes ? bytes_flag : 0u);
  return {load_bytes(text.data(), text.size()), size, text.data(), is_bytes ? hash ^ hash_a : hash};
}

inline uint64_t bits_of(double real) {
  uint64_t bits;
  std::memcpy(&bits, &real, 8);
  return bits;
}

class Hasher {
 public:
  explicit Hasher(uint64_t seed = 0)
      : seed_(seed), start_(scatter(seed + hash_a)), factor_(scatter(seed + 2 * hash_a) | 1),
        base_(256 + scatter(seed + 3 * hash_a) % (modulus - 512)) {}

  uint64_t seed() const { return seed_; }

  uint64_t word(uint64_t word, uint64_t kind) const { return mix(word ^ start_, kind ^ factor_); }

  uint64_t text(std::string_view text) const {
    uint64_t hash = start_;
    size_t done = 0;
    for (; text.size() - done > 8; done += 8) hash = extend_by_word(hash, load_bytes(text.data() + done, 8));
    return finish(hash, load_bytes(text.data() + done, text.size() - done), text.size());
  }

  // The same read from the end, word by word.
  uint64_t text_backwards(std::string_view text) const {
    uint64_t hash = start_;
    size_t left = text.size();
    for (; left > 8; left -= 8) hash = extend_by_word(hash, load_bytes(text.data() + left - 8, 8));
    return finish(hash, load_bytes(text.data(), left), text.size());
  }

  // The steps of which these are made.
  uint64_t start() const { return start_; }
  uint64_t extend_by_word(uint64_t hash, uint64_t word) const { return mix(hash ^ word, factor_); }
  uint64_t finish(uint64_t hash, uint64_t word, size_t size) const { return mix(hash ^ word, factor_ ^ (hash_a + size)); }

  // A window of a text, as long as a power of two: longer ones are joined from their halves.
  uint64_t window(const char* data, size_t size) const {
    return size <= 8 ? short_window(data, size) : join(window(data, size / 2), window(data + size / 2, size / 2));
  }
  uint64_t short_window(const char* data, size_t size) const { return word(load_bytes(data, size), size); }
  uint64_t join(uint64_t left, uint64_t right) const { return word(left, right); }

  // Different numbers of one code have different hashes.
  uint64_t number(uint64_t bits, uint32_t code) const {
    uint64_t hash = (bits ^ start_) * factor_;
    return (hash ^ hash >> 32) * (factor_ + 2 * code);
  }

  Key number_key(uint64_t bits, uint32_t code) const { return {bits, code, nullptr, number(bits, code)}; }

  Key key(const Value& value) const {
    switch (value.type) {
      case Type::string: return text_key(value.text, false, text(value.text));
      case Type::bytes: return text_key(value.text, true, text(value.text));
      case Type::integer: return number_key(static_cast<uint64_t>(value.integer), whole_code);
      case Type::time: return number_key(static_cast<uint64_t>(value.integer), time_code);
      case Type::boolean: return number_key(static_cast<uint64_t>(value.integer), boolean_code);
      case Type::real: break;
    }
    int64_t integer;
    if (as_integer(value.real, integer)) return number_key(static_cast<uint64_t>(integer), whole_code);
    return number_key(bits_of(value.real), real_code);
  }

  // -- parts of texts: polynomials, which can be extended byte by byte and rolled along a text ---------------------------

  // Modulo a prime: modulo 2**64 there are texts whose polynomials are equal whatever the base is.
  static constexpr uint64_t modulus = (uint64_t{1} << 61) - 1;

  uint64_t extend(uint64_t hash, char byte) const { return reduce(wide(hash) * base_ + digit(byte)); }

  // What the first byte of so long a text counts, after one more came.
  uint64_t leaving(size_t size) const {
    uint64_t power = 1;
    for (uint64_t base = base_; size != 0; size >>= 1, base = reduce(wide(base) * base)) {
      if (size & 1) power = reduce(wide(power) * base);
    }
    return power;
  }

  // One byte in at the end, one out at the front.
  uint64_t roll(uint64_t hash, char in, char out, uint64_t leaving) const {
    return reduce(wide(hash) * base_ + digit(in) + (modulus - reduce(wide(leaving) * digit(out))));
  }

  Key part_key(std::string_view text, uint64_t polynomial) const {
    return text_key(text, false, part_hash(polynomial, text.size()));
  }

  uint64_t part_hash(uint64_t polynomial, size_t size) const { return word(polynomial, size); }

  Key part_key(std::string_view text) const {
    uint64_t hash = 0;
    for (char byte : text) hash = extend(hash, byte);
    return part_key(text, hash);
  }

  Key part_key_backwards(std::string_view text) const {
    uint64_t hash = 0;
    for (size_t i = text.size(); i-- > 0;) hash = extend(hash, text[i]);
    return part_key(text, hash);
  }

 private:
  static __uint128_t wide(uint64_t number) { return number; }
  static uint64_t digit(char byte) { return static_cast<uint64_t>(static_cast<uint8_t>(byte)) + 1; }

  static uint64_t reduce(__uint128_t number) {
    uint64_t sum = (static_cast<uint64_t>(number) & modulus) + static_cast<uint64_t>(number >> 61);
    return sum >= modulus ? sum - modulus : sum;
  }

  static uint64_t scatter(uint64_t word) {  // the finisher of splitmix64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ word >> 27) * 0x94D049BB133111EBULL;
    return word ^ word >> 31;
  }

  uint64_t seed_, start_, factor_, base_;
};

}  // namespace palio
