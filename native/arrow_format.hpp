// The format strings of the Arrow C data interface: which types have a counterpart among the six, and what to do about
// the others.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "arrow_columns.hpp"

namespace palio {

struct ColumnType {
  ColumnKind kind = ColumnKind::unsupported;
  Type type = Type::string;  // of text: string or bytes
  int32_t width = 0;         // bytes of a value in the data buffer; zero where values are bits or nothing
  int32_t scale = 0;         // of decimals
};

namespace detail {

inline bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

// A whole number up to the next comma or the end, which it removes from the text; false if there is none.
inline bool take_number(std::string_view& text, int32_t& number) {
  std::string_view part = text.substr(0, text.find(','));
  text.remove_prefix(part.size() < text.size() ? part.size() + 1 : part.size());
  auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  return error == std::errc() && end == part.data() + part.size();
}

inline ColumnType plain_type(char letter) {
  switch (letter) {
    case 'n': return {ColumnKind::null};
    case 'b': return {ColumnKind::boolean};
    case 'c': return {ColumnKind::int8, {}, 1};
    case 'C': return {ColumnKind::uint8, {}, 1};
    case 's': return {ColumnKind::int16, {}, 2};
    case 'S': return {ColumnKind::uint16, {}, 2};
    case 'i': return {ColumnKind::int32, {}, 4};
    case 'I': return {ColumnKind::uint32, {}, 4};
    case 'l': return {ColumnKind::int64, {}, 8};
    case 'L': return {ColumnKind::uint64, {}, 8};
    case 'e': return {ColumnKind::float16, {}, 2};
    case 'f': return {ColumnKind::float32, {}, 4};
    case 'g': return {ColumnKind::float64, {}, 8};
    case 'u': return {ColumnKind::text32, Type::string, 4};
    case 'U': return {ColumnKind::text64, Type::string, 8};
    case 'z': return {ColumnKind::text32, Type::bytes, 4};
    case 'Z': return {ColumnKind::text64, Type::bytes, 8};
    default: return {};
  }
}

// "ts" and the letter of the unit, a colon, and a time zone, whatever it is: the numbers count from 1970 in UTC.
// Without a zone they are readings of some clock, and no instants.
inline ColumnType time_type(std::string_view format) {
  if (format.size() < 5 || format[3] != ':') return {};
  switch (format[2]) {
    case 's': return {ColumnKind::seconds, {}, 8};
    case 'm': return {ColumnKind::milliseconds, {}, 8};
    case 'u': return {ColumnKind::microseconds, {}, 8};
    case 'n': return {ColumnKind::nanoseconds, {}, 8};
    default: return {};
  }
}

// "d:" precision, scale and perhaps the width in bits. The precision says nothing that the value does not.
inline ColumnType decimal_type(std::string_view rest) {
  int32_t precision, scale, bits = 128;
  if (!take_number(rest, precision) || !take_number(rest, scale)) return {};
  if (!rest.empty() && (!take_number(rest, bits) || !rest.empty())) return {};
  if (bits != 32 && bits != 64 && bits != 128 && bits != 256) return {};
  return {ColumnKind::decimal, {}, bits / 8, scale};
}

}  // namespace detail

// Extension types come as the type they are stored in, and are read as that.
inline ColumnType column_type(std::string_view format) {
  if (format.size() == 1) return detail::plain_type(format[0]);
  if (format == "vu") return {ColumnKind::text_view, Type::string, 16};
  if (format == "vz") return {ColumnKind::text_view, Type::bytes, 16};
  if (detail::starts_with(format, "ts")) return detail::time_type(format);
  if (detail::starts_with(format, "d:")) return detail::decimal_type(format.substr(2));
  if (detail::starts_with(format, "w:")) {
    std::string_view rest = format.substr(2);
    int32_t width;
    if (detail::take_number(rest, width) && rest.empty() && width >= 0) {
      return {ColumnKind::fixed_text, Type::bytes, width};
    }
  }
  return {};
}

// Buffers that an array of the type has; views have so many at least.
inline int64_t buffers_of(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::null: return 0;
    case ColumnKind::text32:
    case ColumnKind::text64:
    case ColumnKind::text_view: return 3;
    default: return 2;
  }
}

inline bool is_index(ColumnKind kind) { return kind >= ColumnKind::int8 && kind <= ColumnKind::uint64; }

// A format as messages show it: the producer chose it, so only its first printable characters.
inline std::string quoted(std::string_view format) {
  std::string shown = "'";
  for (char letter : format.substr(0, 40)) shown += letter >= ' ' && letter <= '~' ? letter : '?';
  return shown + (format.size() > 40 ? "...'" : "'");
}

// What a column of an unsupported type is, and what to do with it.
inline std::string unsupported(std::string_view format) {
  using detail::starts_with;
  const char* what = "a type that has no counterpart";
  const char* remedy = "cast it to a boolean, number, string, binary or timestamp, or leave it out";
  if (starts_with(format, "ts")) {
    what = "a timestamp without a time zone";
    remedy = "give it one (in pyarrow: cast it to timestamp('us', 'UTC')), because times are instants";
  } else if (starts_with(format, "td")) {
    what = "a date without a time";
    remedy = "cast it to a timestamp with a time zone or to a string";
  } else if (starts_with(format, "tt")) {
    what = "a time of day";
    remedy = "cast it to an integer or a string";
  } else if (starts_with(format, "tD") || starts_with(format, "ti")) {
    what = "a span of time";
    remedy = "cast it to an integer";
  } else if (starts_with(format, "+r")) {
    what = "run-end encoded";
    remedy = "decode it first, or encode it as a dictionary";
  } else if (starts_with(format, "+")) {
    what = "a nested type";
    remedy = "make its parts columns of their own, or leave it out";
  }
  return std::string(what) + " (Arrow format " + quoted(format) + "); " + remedy;
}

}  // namespace palio
