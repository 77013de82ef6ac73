// From Python objects of the model to what the core works with.
#pragma once

#include <Python.h>
#include <datetime.h>
#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include "predicate.hpp"

namespace palio::python {

namespace nb = nanobind;

inline std::string_view utf8(PyObject* text) {
  Py_ssize_t size;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

// Days since 1970-01-01 of a calendar date, after Hinnant's "chrono-compatible" algorithms.
inline int64_t days_from_civil(int year, int month, int day) {
  int64_t y = month <= 2 ? year - 1 : year;
  int64_t era = (y >= 0 ? y : y - 399) / 400;
  int64_t year_of_era = y - era * 400;
  int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

// Microseconds since 1970 of a datetime in UTC, which the model's times are.
inline int64_t microseconds(PyObject* time) {
  int64_t days = days_from_civil(PyDateTime_GET_YEAR(time), PyDateTime_GET_MONTH(time), PyDateTime_GET_DAY(time));
  int64_t seconds = PyDateTime_DATE_GET_HOUR(time) * 3600 + PyDateTime_DATE_GET_MINUTE(time) * 60 +
                    PyDateTime_DATE_GET_SECOND(time);
  return (days * 86400 + seconds) * 1000000 + PyDateTime_DATE_GET_MICROSECOND(time);
}

// A value that the model has checked; the result points into the Python object.
inline Value to_value(PyObject* value) {
  if (PyUnicode_CheckExact(value)) return Value::of_string(utf8(value));
  if (PyBool_Check(value)) return Value::of_boolean(value == Py_True);
  if (PyLong_CheckExact(value)) {
    int64_t integer = PyLong_AsLongLong(value);
    if (integer == -1 && PyErr_Occurred()) throw nb::python_error();
    return Value::of_integer(integer);
  }
  if (PyFloat_CheckExact(value)) return Value::of_real(PyFloat_AS_DOUBLE(value));
  if (PyDateTime_Check(value)) return Value::of_time(microseconds(value));
  if (PyBytes_CheckExact(value)) {
    return Value::of_bytes({PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value))});
  }
  throw nb::type_error("a value that is none of the model's");
}

// Reads the constraints of filters. It knows the model's enumerations by identity, which is what makes it quick.
class FilterReader {
 public:
  FilterReader() {
    nb::module_ model = nb::module_::import_("palio.model");
    filter_type_ = model.attr("Filter");
    constraint_type_ = model.attr("Constraint");
    nb::object operators = model.attr("Operator"), types = model.attr("Type");
    const char* names[] = {"EQ", "NE", "LT", "LE", "GT", "GE", "PREFIX", "SUFFIX", "CONTAINS",
                           "NOT_PREFIX", "NOT_SUFFIX", "NOT_CONTAINS", "ANY", "ABSENT"};
    for (const char* name : names) operators_.push_back(operators.attr(name));
    auto know = [&](const char* name, TypeMask mask) { types_.push_back({types.attr(name), mask}); };
    know("STRING", mask_of(Type::string));
    know("NUMBER", number_types);
    know("ANY", all_types);
    know("INTEGER", mask_of(Type::integer));
    know("FLOAT", mask_of(Type::real));
    know("BOOLEAN", mask_of(Type::boolean));
    know("TIME", mask_of(Type::time));
    know("BYTES", mask_of(Type::bytes));
  }

  bool is_filter(nb::handle object) const { return PyObject_IsInstance(object.ptr(), filter_type_.ptr()) == 1; }

  // Calls visit(name, constraint without its name's number) for each, and returns what keeps their texts alive.
  template <class Visit>
  nb::object read(nb::handle filter, Visit visit) const {
    nb::object constraints = part(filter.ptr(), constraints_);
    if (!PyTuple_CheckExact(constraints.ptr())) throw nb::type_error("a filter whose constraints are no tuple");
    Py_ssize_t count = PyTuple_GET_SIZE(constraints.ptr());
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* constraint = PyTuple_GET_ITEM(constraints.ptr(), i);
      // A subclass might make names and values up as they are asked for, and nobody would keep them.
      bool is_plain = reinterpret_cast<PyObject*>(Py_TYPE(constraint)) == constraint_type_.ptr();
      if (!is_plain) throw nb::type_error("a constraint of a class of its own");
      nb::object name = part(constraint, name_), op = part(constraint, operator_), type = part(constraint, type_);
      nb::object value = part(constraint, value_);
      Constraint read{0, to_operator(op), to_mask(type), {}};
      if (!value.is_none()) read.literal = to_value(value.ptr());
      visit(utf8(name.ptr()), read);
    }
    return constraints;
  }

 private:
  static nb::object part(PyObject* object, const nb::str& name) {
    PyObject* part = PyObject_GetAttr(object, name.ptr());
    if (part == nullptr) throw nb::python_error();
    return nb::steal(part);
  }

  Operator to_operator(nb::handle op) const {
    for (size_t i = 0; i < operators_.size(); ++i) {
      if (operators_[i].is(op)) return static_cast<Operator>(i);
    }
    throw nb::type_error("an operator that is none of the model's");
  }

  TypeMask to_mask(nb::handle type) const {
    for (const auto& [known, mask] : types_) {
      if (known.is(type)) return mask;
    }
    throw nb::type_error("a type that is none of the model's");
  }

  static nb::str interned(const char* text) { return nb::steal<nb::str>(PyUnicode_InternFromString(text)); }

  nb::object filter_type_, constraint_type_;
  std::vector<nb::object> operators_;
  std::vector<std::pair<nb::object, TypeMask>> types_;
  nb::str constraints_ = interned("constraints"), name_ = interned("name"), operator_ = interned("operator"),
          type_ = interned("type"), value_ = interned("value");
};

}  // namespace palio::python
