// Parts that texts must not have: how it is seen, for many of them at once, that a text has none.
//
// Of a text all beginnings, all ends, or all windows of a length are marked in a table of bits by a hash. A part whose mark
// is missing is not in the text. A mark that is there may be another's, so then the text is looked at.
#pragma once

#include <algorithm>
#include <vector>

#include "hasher.hpp"

namespace palio {

enum class PartForm : uint32_t { beginning, end, window };
constexpr uint32_t part_forms = 3;

constexpr uint32_t longest_part = 4096;  // of longer ones only so many bytes are looked for
constexpr uint32_t window_sizes = 13;    // the powers of two up to the longest part

inline uint32_t window_class(uint32_t size) { return 31u - static_cast<uint32_t>(__builtin_clz(size)); }

// The upper bits of a hash, in which all bits of a value have had their say.
inline uint16_t short_hash(uint64_t hash) { return static_cast<uint16_t>(hash >> 48); }

// A part as it is looked for. A window is the longest power of two that fits into the part; its first and its last one
// cover it. Beginnings and ends have one mark.
struct Part {
  PartForm form;
  uint32_t size;  // of the beginning or end, or of the window
  uint16_t first, last;

  static Part of(PartForm form, std::string_view text, const Hasher& hasher) {
    uint32_t size = static_cast<uint32_t>(std::min<size_t>(text.size(), longest_part));
    if (form == PartForm::window) {
      size = 1u << window_class(size);
      return {form, size, short_hash(hasher.window(text.data(), size)),
              short_hash(hasher.window(text.data() + text.size() - size, size))};
    }
    bool is_end = form == PartForm::end;
    uint64_t hash = is_end ? hasher.text_backwards(text.substr(text.size() - size)) : hasher.text(text.substr(0, size));
    uint16_t mark = short_hash(hash);
    return {form, size, mark, mark};
  }
};

// Whether parts so long can be looked for; a file may say anything.
inline bool is_sound_part(PartForm form, uint32_t size) {
  return static_cast<uint32_t>(form) < part_forms && size - 1 < longest_part;
}

// Which parts are looked for together.
struct PartSizes {
  uint64_t remainders = 0;  // of sizes less one, modulo 64
  uint32_t longest = 0;

  static PartSizes of(uint32_t size) { return {uint64_t{1} << (size - 1) % 64, size}; }
  bool includes(const PartSizes& other) const { return (other.remainders & ~remainders) == 0 && other.longest <= longest; }
  void add(const PartSizes& other) {
    remainders |= other.remainders;
    longest = std::max(longest, other.longest);
  }
};

// A table of bits, larger for larger texts, so that few bits are set: one in 64, up to a thousand marks.
class Marks {
 public:
  void clear(size_t expected) {
    uint32_t bits = least_bits;
    while (bits < most_bits && (size_t{1} << bits) < 64 * expected) ++bits;
    words_.assign((size_t{1} << bits) / 64, 0);
    bits_ = bits;  // not before there is room for so many
  }

  void set(uint64_t hash) {
    uint32_t place = short_hash(hash) >> (16 - bits_);
    words_[place / 64] |= uint64_t{1} << place % 64;
  }

  bool has(uint16_t mark) const {
    uint32_t place = static_cast<uint32_t>(mark) >> (16 - bits_);
    return (words_[place / 64] >> place % 64 & 1) != 0;
  }

  size_t used_bytes() const { return words_.capacity() * sizeof(uint64_t); }

 private:
  static constexpr uint32_t least_bits = 6, most_bits = 16;

  uint32_t bits_ = least_bits;
  std::vector<uint64_t> words_ = std::vector<uint64_t>(1);
};

// The marks of one text, made when enough was asked for to pay for them.
class TextParts {
 public:
  void clear() {
    earned_ = 0;
    sizes_[0] = sizes_[1] = {};
    windows_made_ = 0;
  }

  // The marks, or null as long as testing a few parts one by one is cheaper: so many are to be looked for now.
  const Marks* marks(std::string_view text, PartForm form, const PartSizes& sizes, uint32_t asked, const Hasher& hasher) {
    earned_ += asked * worth_of_a_test;
    return form == PartForm::window ? windows(text, window_class(sizes.longest), hasher) : ends(text, form, sizes, hasher);
  }

  size_t used_bytes() const {
    size_t bytes = sizeof(TextParts) + hashes_.capacity() * sizeof(uint64_t);
    for (const Marks& marks : ends_) bytes += marks.used_bytes();
    for (const Marks& marks : windows_) bytes += marks.used_bytes();
    return bytes;
  }

 private:
  static constexpr uint64_t worth_of_a_test = 32;  // marks can be made in the time that a test takes

  bool can_pay(uint64_t marks) {
    if (earned_ < marks) return false;
    earned_ -= marks;
    return true;
  }

  const Marks* ends(std::string_view text, PartForm form, const PartSizes& wanted, const Hasher& hasher) {
    Marks& marks = ends_[static_cast<uint32_t>(form)];
    PartSizes& made = sizes_[static_cast<uint32_t>(form)];
    if (made.includes(wanted)) return &marks;
    PartSizes sizes = made;
    sizes.add(wanted);
    size_t longest = std::min<size_t>(sizes.longest, text.size());
    if (!can_pay(longest)) return nullptr;
    made = {};  // should there be no memory
    marks.clear(longest);
    made = sizes;
    if (form == PartForm::end) {
      const char* end = text.data() + text.size();
      mark_ends(marks, sizes.remainders, longest, hasher, [&](size_t at, size_t size) {
        return load_bytes(end - at - size, size);
      });
    } else {
      mark_ends(marks, sizes.remainders, longest, hasher, [&](size_t at, size_t size) {
        return load_bytes(text.data() + at, size);
      });
    }
    return &marks;
  }

  // load(at, size): bytes of the text, at most eight, counted from the end at which all parts lie.
  template <class Load>
  static void mark_ends(Marks& marks, uint64_t remainders, size_t longest, const Hasher& hasher, Load load) {
    uint64_t hash = hasher.start();
    for (size_t at = 0; at < longest; at += 8) {
      for (uint64_t left = remainders >> at % 64 & 0xFF; left != 0; left &= left - 1) {
        size_t size = static_cast<size_t>(__builtin_ctzll(left)) + 1;
        if (at + size > longest) break;
        marks.set(hasher.finish(hash, load(at, size), at + size));
      }
      if (at + 8 <= longest) hash = hasher.extend_by_word(hash, load(at, 8));
    }
  }

  const Marks* windows(std::string_view text, uint32_t wanted, const Hasher& hasher) {
    Marks& marks = windows_[wanted];
    if ((windows_made_ >> wanted & 1) != 0) return &marks;
    const size_t size = size_t{1} << wanted;
    const size_t count = text.size() < size ? 0 : text.size() - size + 1;
    if (!can_pay(count * (wanted <= word_class ? 1 : wanted))) return nullptr;
    marks.clear(count);
    mark_windows(marks, text, size, count, hasher);
    windows_made_ |= 1u << wanted;
    return &marks;
  }

  void mark_windows(Marks& marks, std::string_view text, size_t size, size_t count, const Hasher& hasher) {
    auto mark_words = [&](auto constant) {
      for (size_t i = 0; i < count; ++i) marks.set(hasher.short_window(text.data() + i, constant));
    };
    switch (size) {
      case 1: return mark_words(std::integral_constant<size_t, 1>());
      case 2: return mark_words(std::integral_constant<size_t, 2>());
      case 4: return mark_words(std::integral_constant<size_t, 4>());
      case 8: return mark_words(std::integral_constant<size_t, 8>());
      default: break;
    }
    if (count == 0) return;
    hashes_.resize(text.size() - 7);
    for (size_t i = 0; i < hashes_.size(); ++i) hashes_[i] = hasher.short_window(text.data() + i, 8);
    for (size_t half = 8; half < size; half *= 2) {
      for (size_t i = 0; i + 2 * half <= text.size(); ++i) hashes_[i] = hasher.join(hashes_[i], hashes_[i + half]);
    }
    for (size_t i = 0; i < count; ++i) marks.set(hashes_[i]);
  }

  static constexpr uint32_t word_class = 3;

  uint64_t earned_ = 0;
  PartSizes sizes_[2];  // of beginnings and ends that are marked
  Marks ends_[2];
  uint32_t windows_made_ = 0;  // bit i: those of two to the power of i bytes
  Marks windows_[window_sizes];
  std::vector<uint64_t> hashes_;
};

}  // namespace palio
