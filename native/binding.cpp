// palio._core: conversions between Python and the compiled core, and nothing else.
#include <Python.h>
#include <datetime.h>
#include <nanobind/nanobind.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <vector>

#include "arrow_binding.hpp"
#include "board_binding.hpp"
#include "body.hpp"
#include "index_binding.hpp"
#include "tables_binding.hpp"
#include "to_python.hpp"

namespace nb = nanobind;

namespace {

using palio::python::to_python;
using palio::python::to_str;

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
    nb::object error = palio::python::to_error(failure);
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
  nb::set_leak_warnings(false);  // an index in a global variable lives until the process ends, and may
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
  palio::python::register_arrow(module);
  palio::python::register_index(module);
  palio::python::register_board(module);
  palio::python::register_tables(module);
}
