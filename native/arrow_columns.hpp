// One column of an Arrow array, prepared for reading: from the buffers of the Arrow format to values of the model.
//
// The C data interface says how long arrays are but not how large buffers are. So a buffer that is shorter than its
// array cannot be noticed; everything that the interface does tell (lengths, offsets, sizes of variadic buffers, the
// last offset of a text column) is checked, when the column is taken or when a value is read.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "decimal.hpp"
#include "hasher.hpp"
#include "msgpack.hpp"
#include "utf8.hpp"

namespace palio {

enum class ColumnKind : uint8_t {
  null, boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64,
  text32, text64, text_view, fixed_text, seconds, milliseconds, microseconds, nanoseconds, decimal,
  dictionary, unsupported,
};

// What reading a cell gives: nothing, a value, or why it is no value of the model. The last two mean that the batch is
// damaged.
enum class Found : uint8_t {
  absent, present, not_finite, large_integer, not_utf8, long_text, fine_time, far_time, large_decimal, long_decimal,
  broken_offsets, outside_dictionary,
};

inline bool is_damage(Found found) { return found >= Found::broken_offsets; }

// A dictionary's entry, with what every row that refers to it would else compute again.
struct DictionaryEntry {
  Value value;
  Key key;
  Found found;
};

struct ArrowColumn {
  ColumnKind kind = ColumnKind::null;
  ColumnKind index = ColumnKind::null;  // of dictionaries: the type of the indexes
  Type type = Type::string;             // of text: string or bytes
  const Hasher* hasher = nullptr;       // of the index that wants the keys
  const uint8_t* validity = nullptr;    // null if there are no nulls
  int64_t first = 0;                    // where row 0 is in the bitmaps
  const uint8_t* data = nullptr;        // row 0 of values, offsets, views or indexes; booleans are a bitmap
  uint64_t longest = 0;                 // text: bytes allowed
  const uint8_t* text = nullptr;        // text by offsets: what they point into
  uint64_t text_size = 0;               //   and how far they may
  const void* const* blocks = nullptr;  // text views: the buffers they point into
  const uint8_t* block_sizes = nullptr;
  int64_t block_count = 0;
  int32_t width = 0;                          // bytes of fixed-size text and of decimals
  int32_t scale = 0;                          // of decimals
  bool rounds = false;                        //   and whether long ones are rounded
  const DictionaryEntry* entries = nullptr;   // dictionaries: their entries if prepared,
  const ArrowColumn* dictionary = nullptr;    //   the values,
  uint64_t entry_count = 0;                   //   and how many they are
};

namespace detail {

inline bool bit(const uint8_t* bits, int64_t at) { return (bits[at >> 3] >> (at & 7) & 1) != 0; }

// The interface recommends alignment but does not promise it.
template <class Word>
Word load(const uint8_t* data, int64_t at) {
  Word word;
  std::memcpy(&word, data + at * static_cast<int64_t>(sizeof(Word)), sizeof(Word));
  return word;
}

inline double from_half(uint16_t half) {
  uint64_t sign = static_cast<uint64_t>(half >> 15) << 63;
  uint64_t exponent = half >> 10 & 0x1F, fraction = half & 0x3FF;
  if (exponent == 0) {  // zero and subnormals
    double real = static_cast<double>(fraction) * 0x1p-24;
    return sign != 0 ? -real : real;
  }
  uint64_t bits = sign | (exponent == 31 ? 0x7FFULL : exponent - 15 + 1023) << 52 | fraction << 42;
  double real;
  std::memcpy(&real, &bits, 8);
  return real;
}

inline Found real_found(double real, Value& value) {
  value = Value::of_real(real);
  return std::isfinite(real) ? Found::present : Found::not_finite;
}

inline Found integer_found(int64_t integer, Value& value) {
  value = Value::of_integer(integer);
  return Found::present;
}

inline Found time_found(int64_t number, int64_t scale, Value& value) {
  if (number < min_microseconds / scale || number > max_microseconds / scale) return Found::far_time;
  value = Value::of_time(number * scale);
  return Found::present;
}

inline Found nanoseconds_found(int64_t number, Value& value) {
  if (number % 1000 != 0) return Found::fine_time;
  value = Value::of_time(number / 1000);  // 64 bits of nanoseconds stay within years 1677 to 2262
  return Found::present;
}

inline Found text_found(const ArrowColumn& column, const uint8_t* start, uint64_t size, Value& value) {
  // Empty text may lie in a buffer that is not there, and hashing wants an address.
  if (size == 0) start = reinterpret_cast<const uint8_t*>("");
  value = {column.type, 0, 0, {reinterpret_cast<const char*>(start), size}};
  if (size > column.longest) return Found::long_text;
  if (column.type == Type::string && !is_utf8(start, size)) return Found::not_utf8;
  return Found::present;
}

// Text by offsets. Signed offsets taken for unsigned ones are too large when they are negative.
template <class Offset>
Found offset_text(const ArrowColumn& column, int64_t row, Value& value) {
  uint64_t start = static_cast<uint64_t>(static_cast<int64_t>(load<Offset>(column.data, row)));
  uint64_t end = static_cast<uint64_t>(static_cast<int64_t>(load<Offset>(column.data, row + 1)));
  if (start > end || end > column.text_size) return Found::broken_offsets;
  return text_found(column, column.text + start, end - start, value);
}

// A view: size, then either up to twelve bytes of text, or four of its bytes, the number of a buffer and an offset.
inline Found view_text(const ArrowColumn& column, int64_t row, Value& value) {
  const uint8_t* view = column.data + row * 16;
  int32_t size = load<int32_t>(view, 0);
  if (size < 0) return Found::broken_offsets;
  if (size <= 12) return text_found(column, view + 4, static_cast<uint64_t>(size), value);
  int32_t block = load<int32_t>(view, 2), offset = load<int32_t>(view, 3);
  if (block < 0 || block >= column.block_count || offset < 0) return Found::broken_offsets;
  const uint8_t* start = static_cast<const uint8_t*>(column.blocks[block]);
  int64_t end = static_cast<int64_t>(offset) + size;
  if (start == nullptr || end > load<int64_t>(column.block_sizes, block)) return Found::broken_offsets;
  return text_found(column, start + offset, static_cast<uint64_t>(size), value);
}

inline Found decimal_found(const ArrowColumn& column, int64_t row, Value& value) {
  WideInteger wide = load_wide(column.data + row * column.width, static_cast<size_t>(column.width));
  if (column.scale <= 0) {
    int64_t integer;
    if (!decimal_to_integer(wide, -static_cast<int64_t>(column.scale), integer)) return Found::large_decimal;
    return integer_found(integer, value);
  }
  double real;
  if (!decimal_to_real(wide, column.scale, column.rounds, real)) return Found::long_decimal;
  value = Value::of_real(real);
  return Found::present;
}

// Integers of all widths; unsigned ones beyond the signed range come out negative.
inline int64_t load_integer(ColumnKind kind, const uint8_t* data, int64_t row) {
  switch (kind) {
    case ColumnKind::int8: return load<int8_t>(data, row);
    case ColumnKind::int16: return load<int16_t>(data, row);
    case ColumnKind::int32: return load<int32_t>(data, row);
    case ColumnKind::uint8: return load<uint8_t>(data, row);
    case ColumnKind::uint16: return load<uint16_t>(data, row);
    case ColumnKind::uint32: return load<uint32_t>(data, row);
    default: return load<int64_t>(data, row);
  }
}

// The value of a row that is not null, in a column that is no dictionary.
inline Found read_value(const ArrowColumn& column, int64_t row, Value& value) {
  const uint8_t* data = column.data;
  switch (column.kind) {
    case ColumnKind::boolean: value = Value::of_boolean(bit(data, column.first + row)); return Found::present;
    case ColumnKind::int64: return integer_found(load<int64_t>(data, row), value);
    case ColumnKind::int8:
    case ColumnKind::int16:
    case ColumnKind::int32:
    case ColumnKind::uint8:
    case ColumnKind::uint16:
    case ColumnKind::uint32: return integer_found(load_integer(column.kind, data, row), value);
    case ColumnKind::uint64: {
      int64_t integer = load<int64_t>(data, row);
      return integer < 0 ? Found::large_integer : integer_found(integer, value);
    }
    case ColumnKind::float16: return real_found(from_half(load<uint16_t>(data, row)), value);
    case ColumnKind::float32: return real_found(static_cast<double>(load<float>(data, row)), value);
    case ColumnKind::float64: return real_found(load<double>(data, row), value);
    case ColumnKind::text32: return offset_text<int32_t>(column, row, value);
    case ColumnKind::text64: return offset_text<int64_t>(column, row, value);
    case ColumnKind::text_view: return view_text(column, row, value);
    case ColumnKind::fixed_text:
      return text_found(column, data + row * column.width, static_cast<uint64_t>(column.width), value);
    case ColumnKind::seconds: return time_found(load<int64_t>(data, row), 1000000, value);
    case ColumnKind::milliseconds: return time_found(load<int64_t>(data, row), 1000, value);
    case ColumnKind::microseconds: return time_found(load<int64_t>(data, row), 1, value);
    case ColumnKind::nanoseconds: return nanoseconds_found(load<int64_t>(data, row), value);
    case ColumnKind::decimal: return decimal_found(column, row, value);
    case ColumnKind::null:
    case ColumnKind::dictionary:
    case ColumnKind::unsupported: break;
  }
  return Found::absent;
}

inline Found read_cell(const ArrowColumn& column, int64_t row, Value& value, Key& key) {
  if (column.validity != nullptr && !bit(column.validity, column.first + row)) return Found::absent;
  Found found = read_value(column, row, value);
  if (found == Found::present) key = column.hasher->key(value);
  return found;
}

inline Found read_indexed(const ArrowColumn& column, int64_t row, Value& value, Key& key) {
  if (column.validity != nullptr && !bit(column.validity, column.first + row)) return Found::absent;
  uint64_t index = static_cast<uint64_t>(load_integer(column.index, column.data, row));
  if (index >= column.entry_count) return Found::outside_dictionary;
  if (column.entries == nullptr) return read_cell(*column.dictionary, static_cast<int64_t>(index), value, key);
  const DictionaryEntry& entry = column.entries[index];
  value = entry.value;
  key = entry.key;
  return entry.found;
}

}  // namespace detail

}  // namespace palio
