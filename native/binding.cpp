// palio._core: conversions between Python and the compiled core, and nothing else.
#include <Python.h>
#include <datetime.h>
#include <nanobind/nanobind.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <vector>

#include "body.hpp"
#include "index_binding.hpp"

namespace nb = nanobind;

namespace {

nb::object to_str(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr));
}

// The calendar date of a day number (days since 1970-01-01), after Hinnant's "chrono-compatible" algorithms.
std::array<int, 3> civil_from_days(int64_t days) {
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

nb::object to_datetime(int64_t microseconds) {
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

nb::object to_python(const palio::Token& token) {
  switch (token.kind) {
    case palio::Kind::boolean: return nb::bool_(token.integer != 0);
    case palio::Kind::integer: return nb::int_(token.integer);
    case palio::Kind::real: return nb::float_(token.real);
    case palio::Kind::string: return to_str(token.text);
    case palio::Kind::bytes: return nb::bytes(token.text.data(), token.text.size());
    case palio::Kind::time: return to_datetime(token.integer);
    default: return nb::none();
  }
}

const uint8_t* data_of(const nb::bytes& data) { return reinterpret_cast<const uint8_t*>(data.c_str()); }

struct BodyBuilder {
  nb::dict attributes;
  nb::object content_type = nb::none();
  nb::object data = nb::none();

  void attribute(std::string_view name, const palio::Token& value) { attributes[to_str(name)] = to_python(value); }

  void payload(std::string_view type, std::string_view bytes) {
    content_type = to_str(type);
    data = nb::bytes(bytes.data(), bytes.size());
  }
};

nb::tuple decode_body(const nb::bytes& data, uint64_t attributes, uint64_t name_bytes, uint64_t value_bytes,
                      uint64_t payload_bytes) {
  BodyBuilder builder;
  palio::read_body(data_of(data), data.size(), {attributes, name_bytes, value_bytes, payload_bytes}, builder);
  return nb::make_tuple(builder.attributes, builder.content_type, builder.data);
}

// Arrays of arrays of scalars, as deep and as many as allowed; the stack is ours, not the machine's.
nb::object unpack(const nb::bytes& data, size_t depth, uint64_t most) {
  struct Open {
    nb::list items;
    uint32_t missing;
  };
  palio::Reader reader(data_of(data), data.size());
  std::vector<Open> stack;
  for (uint64_t read = 0;; ++read) {
    if (read > most) throw palio::DecodeFailure("more elements than any document within the limits has");
    palio::Token token = reader.next();
    if (token.kind == palio::Kind::map) throw palio::DecodeFailure("expected an array or a plain value, not a map");
    nb::object value;
    if (token.kind == palio::Kind::array) {
      if (stack.size() == depth) throw palio::DecodeFailure("arrays nested deeper than any document of this kind");
      stack.push_back({nb::list(), token.count});
    } else {
      value = to_python(token);
    }
    while (value.is_valid() || (!stack.empty() && stack.back().missing == 0)) {
      if (!value.is_valid()) {
        value = std::move(stack.back().items);
        stack.pop_back();
      }
      if (stack.empty()) {
        if (!reader.at_end()) throw palio::DecodeFailure("bytes after the end of the document");
        return value;
      }
      stack.back().items.append(value);
      --stack.back().missing;
      value = nb::object();
    }
  }
}

void raise_as_python(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const palio::DecodeFailure& failure) {
    nb::module_ errors = nb::module_::import_("palio.errors");
    nb::object path = to_str(failure.path());
    nb::object error =
        failure.limit() != nullptr
            ? errors.attr("DecodeLimitError")(failure.limit(), failure.allowed(), to_str(failure.problem()), path)
            : errors.attr("DecodeError")(to_str(failure.problem()), path);
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (const palio::FileFailure& failure) {
    PyErr_SetString(nb::module_::import_("palio.errors").attr("FileFormatError").ptr(), failure.what());
  } catch (const palio::CapacityFailure& failure) {
    nb::object error = nb::module_::import_("palio.errors")
                           .attr("LimitError")(failure.limit(), failure.allowed(), failure.actual(), failure.what());
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (const std::system_error& failure) {
    errno = failure.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
  }
}

}  // namespace

NB_MODULE(_core, module) {
  PyDateTime_IMPORT;
  module.doc() = "The compiled core of Palio; use it through the packages that wrap it.";
  nb::register_exception_translator(raise_as_python);
  module.def("decode_body", &decode_body, nb::arg("data"), nb::kw_only(), nb::arg("attributes"), nb::arg("name_bytes"),
             nb::arg("value_bytes"), nb::arg("payload_bytes"),
             nb::sig("def decode_body(data: bytes, *, attributes: int, name_bytes: int, value_bytes: int, "
                     "payload_bytes: int) -> tuple[dict[str, str | int | float | bool | datetime.datetime | bytes], "
                     "str | None, bytes | None]"),
             "Validate and read the body of a notification: its attributes, content type and payload.");
  module.def("unpack", &unpack, nb::arg("data"), nb::arg("depth"), nb::arg("most"),
             nb::sig("def unpack(data: bytes, depth: int, most: int) -> object"),
             "Read arrays of plain values, nested at most so deep and with at most so many elements in all.");
  palio::python::register_index(module);
}
