// From values of the core to Python objects.
#pragma once

#include <Python.h>
#include <datetime.h>
#include <nanobind/nanobind.h>

#include <array>
#include <string_view>

#include "msgpack.hpp"
#include "value.hpp"

namespace palio::python {

namespace nb = nanobind;

inline nb::object to_str(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr));
}

// The calendar date of a day number (days since 1970-01-01), after Hinnant's "chrono-compatible" algorithms.
inline std::array<int, 3> civil_from_days(int64_t days) {
  days += 719468;
  int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  int64_t day_of_era = days - era * 146097;
  int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  int64_t shifted_month = (5 * day_of_year + 2) / 153;
  int64_t day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
  int64_t month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
  int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  return {static_cast<int>(year), static_cast<int>(month), static_cast<int>(day)};
}

inline nb::object to_datetime(int64_t microseconds) {
  constexpr int64_t day = 86400000000;
  int64_t days = microseconds / day;
  int64_t rest = microseconds % day;
  if (rest < 0) {
    rest += day;
    --days;
  }
  auto [year, month, day_of_month] = civil_from_days(days);
  int64_t seconds = rest / 1000000;
  return nb::steal(PyDateTimeAPI->DateTime_FromDateAndTime(
      year, month, day_of_month, static_cast<int>(seconds / 3600), static_cast<int>(seconds / 60 % 60),
      static_cast<int>(seconds % 60), static_cast<int>(rest % 1000000), PyDateTime_TimeZone_UTC,
      PyDateTimeAPI->DateTimeType));
}

inline nb::object to_python(const Token& token) {
  switch (token.kind) {
    case Kind::boolean: return nb::bool_(token.integer != 0);
    case Kind::integer: return nb::int_(token.integer);
    case Kind::real: return nb::float_(token.real);
    case Kind::string: return to_str(token.text);
    case Kind::bytes: return nb::bytes(token.text.data(), token.text.size());
    case Kind::time: return to_datetime(token.integer);
    default: return nb::none();
  }
}

inline nb::object to_python(const Value& value) {
  switch (value.type) {
    case Type::boolean: return nb::bool_(value.integer != 0);
    case Type::integer: return nb::int_(value.integer);
    case Type::real: return nb::float_(value.real);
    case Type::string: return to_str(value.text);
    case Type::bytes: return nb::bytes(value.text.data(), value.text.size());
    case Type::time: return to_datetime(value.integer);
  }
  return nb::none();
}

}  // namespace palio::python
