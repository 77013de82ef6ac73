// Arrow in Python: record batches taken from any object that exports them, and columns of results handed out, both
// through the PyCapsule interface and without copying.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "arrow.hpp"
#include "buffer.hpp"
#include "to_python.hpp"

namespace palio::python {

namespace nb = nanobind;

// -- taking batches ---------------------------------------------------------------------------------------------------

// Owns what a producer handed over, and releases it once.
template <class Struct>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Struct& source) : struct_(source) { source.release = nullptr; }  // a move, as the interface defines it
  Owned(Owned&& other) noexcept : struct_(other.struct_) { other.struct_.release = nullptr; }
  Owned& operator=(Owned&& other) noexcept {
    std::swap(struct_, other.struct_);
    return *this;
  }
  ~Owned() {
    if (struct_.release != nullptr) struct_.release(&struct_);
  }
  const Struct& operator*() const { return struct_; }

 private:
  Struct struct_{};
};

[[noreturn]] inline void no_batch(const std::string& problem) {
  throw ColumnFailure(ColumnFailure::Code::batch, problem);
}

template <class Struct>
Struct& in_capsule(nb::handle capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule.ptr(), name)) {
    no_batch(std::string("__arrow_c_array__ gave no capsule named '") + name + "'; its Arrow export is broken");
  }
  return *static_cast<Struct*>(PyCapsule_GetPointer(capsule.ptr(), name));
}

// A batch with the memory that it points into. It may be read, and let go, without holding the interpreter's lock.
class TakenBatch {
 public:
  TakenBatch(nb::handle object, const ColumnReading& reading, const Hasher& hasher)
      : TakenBatch(exported(object), reading, hasher) {}

  const ArrowBatch& batch() const { return batch_; }

 private:
  TakenBatch(const nb::object& pair, const ColumnReading& reading, const Hasher& hasher)
      : array_(in_capsule<ArrowArray>(nb::handle(PyTuple_GET_ITEM(pair.ptr(), 1)), "arrow_array")),
        batch_(*Owned(in_capsule<ArrowSchema>(nb::handle(PyTuple_GET_ITEM(pair.ptr(), 0)), "arrow_schema")), *array_,
               reading, hasher) {}

  static nb::object exported(nb::handle object) {
    nb::object method = nb::getattr(object, "__arrow_c_array__", nb::none());
    if (method.is_none()) {
      if (nb::hasattr(object, "__arrow_c_stream__")) {
        no_batch("a table or stream has many batches; pass one record batch at a time (pyarrow: table.to_batches())");
      }
      no_batch(std::string("an object of type ") + Py_TYPE(object.ptr())->tp_name +
               " exports no Arrow array; pass a record batch, such as a pyarrow.RecordBatch");
    }
    if (PyType_Check(object.ptr())) no_batch("a class is no record batch; pass an instance of it");
    nb::object pair = method();
    if (!PyTuple_Check(pair.ptr()) || PyTuple_GET_SIZE(pair.ptr()) != 2) {
      no_batch("__arrow_c_array__ gave no pair of capsules; its Arrow export is broken");
    }
    return pair;
  }

  Owned<ArrowArray> array_;
  ArrowBatch batch_;
};

// -- handing out results ----------------------------------------------------------------------------------------------

// A column of 32- or 64-bit integers. What refers to the numbers, here or in another library, keeps them alive.
class ResultColumn {
 public:
  explicit ResultColumn(Buffer<int32_t>&& numbers) : ResultColumn(Numbers(std::move(numbers))) {}
  explicit ResultColumn(Buffer<int64_t>&& numbers) : ResultColumn(Numbers(std::move(numbers))) {}

  bool is_wide() const { return numbers_->index() == 1; }
  int64_t size() const { return size_; }
  int64_t width() const { return is_wide() ? 8 : 4; }
  const void* data() const {
    static const int64_t nothing = 0;  // an empty vector may have no address, and not every reader likes that
    if (size_ == 0) return &nothing;
    return is_wide() ? static_cast<const void*>(std::get<1>(*numbers_).data()) : std::get<0>(*numbers_).data();
  }
  // The numbers themselves, if they have 64 bits; else null.
  const int64_t* wide() const { return is_wide() ? std::get<1>(*numbers_).data() : nullptr; }
  int64_t at(int64_t row) const {
    size_t place = static_cast<size_t>(row);
    return is_wide() ? std::get<1>(*numbers_)[place] : std::get<0>(*numbers_)[place];
  }

  void export_schema(ArrowSchema* schema) const {
    *schema = {is_wide() ? "l" : "i", "", nullptr, 0, 0, nullptr, nullptr, nullptr, nullptr};
    schema->release = [](ArrowSchema* self) { self->release = nullptr; };
  }

  void export_array(ArrowArray* array) const {
    auto keeper = std::make_unique<Keeper>(Keeper{numbers_, {nullptr, data()}});
    *array = {size_, 0, 0, 2, 0, keeper->buffers, nullptr, nullptr, nullptr, nullptr};
    array->private_data = keeper.release();
    array->release = [](ArrowArray* self) {  // perhaps from another thread: nothing of Python here
      delete static_cast<Keeper*>(self->private_data);
      self->release = nullptr;
    };
  }

  // The buffer protocol, read only. The view holds the Python object, and that holds the numbers.
  static int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    view->obj = nullptr;
    if (!nb::inst_ready(nb::handle(self))) {
      PyErr_SetString(PyExc_BufferError, "column that was never initialized");
      return -1;
    }
    const ResultColumn& column = *nb::inst_ptr<ResultColumn>(nb::handle(self));
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
      PyErr_SetString(PyExc_BufferError, "columns are read-only; copy the numbers to change them");
      return -1;
    }
    view->buf = const_cast<void*>(column.data());
    view->len = static_cast<Py_ssize_t>(column.size() * column.width());
    view->itemsize = static_cast<Py_ssize_t>(column.width());
    view->readonly = 1;
    view->ndim = 1;
    view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? const_cast<char*>(column.is_wide() ? "q" : "i") : nullptr;
    view->shape = (flags & PyBUF_ND) == PyBUF_ND ? const_cast<Py_ssize_t*>(&column.size_) : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &view->itemsize : nullptr;
    view->suboffsets = nullptr;
    view->internal = nullptr;
    view->obj = Py_NewRef(self);
    return 0;
  }

 private:
  using Numbers = std::variant<Buffer<int32_t>, Buffer<int64_t>>;

  struct Keeper {
    std::shared_ptr<const Numbers> numbers;
    const void* buffers[2];
  };

  explicit ResultColumn(Numbers&& numbers) : numbers_(std::make_shared<const Numbers>(std::move(numbers))) {
    size_ = std::visit([](const auto& of) { return static_cast<Py_ssize_t>(of.size()); }, *numbers_);
  }

  std::shared_ptr<const Numbers> numbers_;
  Py_ssize_t size_;  // views point to it
};

// A capsule with an exported structure, which is released with it unless a consumer has taken it.
template <class Struct, class Fill>
nb::object make_capsule(const char* name, Fill fill) {
  auto owned = std::make_unique<Struct>();
  fill(owned.get());
  PyObject* capsule = PyCapsule_New(owned.get(), name, [](PyObject* self) {
    Struct* exported = static_cast<Struct*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
    if (exported->release != nullptr) exported->release(exported);
    delete exported;
  });
  if (capsule == nullptr) {
    owned->release(owned.get());
    throw nb::python_error();
  }
  owned.release();
  return nb::steal(capsule);
}

inline nb::object schema_capsule(const ResultColumn& column) {
  return make_capsule<ArrowSchema>("arrow_schema", [&](ArrowSchema* schema) { column.export_schema(schema); });
}

inline nb::tuple array_capsules(const ResultColumn& column, nb::handle) {
  return nb::make_tuple(schema_capsule(column), make_capsule<ArrowArray>("arrow_array", [&](ArrowArray* array) {
                          column.export_array(array);
                        }));
}

template <class Number>
Buffer<Number> read_numbers(nb::handle values) {
  Buffer<Number> numbers;
  for (nb::handle value : values) {
    int overflow = 0;
    int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (number == -1 && PyErr_Occurred()) throw nb::python_error();
    if (overflow != 0 || static_cast<Number>(number) != number) {
      std::string bits = std::to_string(8 * sizeof(Number));
      throw ColumnFailure(ColumnFailure::Code::value, "integer that does not fit the column's " + bits + " bits");
    }
    numbers.push_back(static_cast<Number>(number));
  }
  return numbers;
}

inline void make_column(ResultColumn* place, nb::handle values, int bits) {
  if (bits != 32 && bits != 64) {
    throw ColumnFailure(ColumnFailure::Code::value, "columns have 32 or 64 bits, not " + std::to_string(bits));
  }
  if (bits == 32) {
    new (place) ResultColumn(read_numbers<int32_t>(values));
  } else {
    new (place) ResultColumn(read_numbers<int64_t>(values));
  }
}

inline int64_t column_item(const ResultColumn& column, int64_t row) {
  if (row < 0) row += column.size();
  if (row < 0 || row >= column.size()) throw nb::index_error("row outside the column");
  return column.at(row);
}

inline nb::list column_list(const ResultColumn& column) {
  nb::list rows;
  for (int64_t row = 0; row < column.size(); ++row) rows.append(column.at(row));
  return rows;
}

inline nb::object column_iterator(nb::handle column) {
  PyObject* view = PyMemoryView_FromObject(column.ptr());
  if (view == nullptr) throw nb::python_error();
  return nb::iter(nb::steal(view));
}

inline nb::object column_text(const ResultColumn& column) {
  std::string text = "Column([";
  int64_t shown = column.size() <= 10 ? column.size() : 8;
  for (int64_t row = 0; row < shown; ++row) text += (row == 0 ? "" : ", ") + std::to_string(column.at(row));
  if (shown < column.size()) text += ", ... " + std::to_string(column.size()) + " in all";
  return to_str(text + "], bits=" + std::to_string(8 * column.width()) + ")");
}

// -- what Python sees -------------------------------------------------------------------------------------------------

inline nb::list arrow_rows(nb::handle object, uint64_t attributes, uint64_t name_bytes, uint64_t value_bytes,
                           bool round_decimals) {
  Hasher hasher;
  TakenBatch taken(object, {{attributes, name_bytes, value_bytes}, round_decimals}, hasher);
  const ArrowBatch& batch = taken.batch();
  std::vector<nb::object> names;
  for (size_t c = 0; c < batch.columns(); ++c) names.push_back(to_str(batch.name(c)));
  nb::list rows;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    nb::dict attributes_of_row;
    for (size_t c = 0; c < batch.columns(); ++c) {
      Value value;
      Key key;
      if (batch.get(c, row, value, key)) attributes_of_row[names[c]] = to_python(value);
    }
    rows.append(attributes_of_row);
  }
  return rows;
}

// "column 'level', row 3: " in front of what went wrong.
inline nb::object place_of(const ColumnFailure& failure, const nb::module_& errors) {
  if (!failure.has_column()) return nb::str("");
  const std::string& bytes = failure.column();
  nb::object name =
      nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace"));
  nb::object place = nb::str("column ") + errors.attr("brief")(name);
  return failure.row() < 0 ? place : place + nb::str((", row " + std::to_string(failure.row())).c_str());
}

inline nb::object to_error(const ColumnFailure& failure) {
  using Code = ColumnFailure::Code;
  nb::module_ errors = nb::module_::import_("palio.errors");
  nb::object place = place_of(failure, errors);
  nb::object problem = to_str(failure.problem());
  if (failure.code() == Code::limit) {
    nb::object what = failure.has_column() ? place + nb::str(": ") + problem : problem;
    return errors.attr("LimitError")(failure.limit(), failure.allowed(), failure.actual(), what);
  }
  const char* error = "InvalidValueError";
  if (failure.code() == Code::batch) error = "InvalidBatchError";
  if (failure.code() == Code::type) error = "UnsupportedColumnError";
  if (failure.code() == Code::name) error = "InvalidNameError";
  if (failure.code() == Code::duplicate) error = "DuplicateNameError";
  return errors.attr(error)(failure.has_column() ? place + nb::str(": ") + problem : problem);
}

inline nb::object to_error(const DecodeFailure& failure) {
  nb::module_ errors = nb::module_::import_("palio.errors");
  nb::object path = to_str(failure.path()), problem = to_str(failure.problem());
  if (failure.limit() == nullptr) return errors.attr("DecodeError")(problem, path);
  return errors.attr("DecodeLimitError")(failure.limit(), failure.allowed(), problem, path);
}

inline void raise_column_failure(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const ColumnFailure& failure) {
    nb::object error = to_error(failure);
    PyErr_SetObject(error.type().ptr(), error.ptr());
  }
}

inline void register_arrow(nb::module_& module) {
  nb::register_exception_translator(raise_column_failure);
  module.def("arrow_rows", &arrow_rows, nb::arg("batch"), nb::kw_only(), nb::arg("attributes"), nb::arg("name_bytes"),
             nb::arg("value_bytes"), nb::arg("round_decimals") = false,
             nb::sig("def arrow_rows(batch: object, *, attributes: int, name_bytes: int, value_bytes: int, "
                     "round_decimals: bool = False) -> list[dict[str, str | int | float | bool | datetime.datetime | bytes]]"),
             "The rows of an Arrow record batch as the matcher sees them: one dictionary of attributes a row, without\n"
             "those that are null. Takes any object with the method __arrow_c_array__, such as a pyarrow.RecordBatch.");
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&ResultColumn::get_buffer)}, {0, nullptr}};
  nb::class_<ResultColumn>(module, "Column", nb::type_slots(slots),
                           "A read-only column of integers, in which results come.\n\n"
                           "Arrow libraries, NumPy and memoryview read it without copying, and may outlive it.")
      .def("__init__", &make_column, nb::arg("values"), nb::kw_only(), nb::arg("bits") = 64,
           nb::sig("def __init__(self, values: collections.abc.Iterable[int], *, bits: int = 64) -> None"),
           "Copies the integers; columns of results are made without.")
      .def("__len__", &ResultColumn::size)
      .def("__getitem__", &column_item, nb::arg("row"), nb::sig("def __getitem__(self, row: int) -> int"))
      .def("__iter__", &column_iterator, nb::sig("def __iter__(self) -> collections.abc.Iterator[int]"))
      .def("__repr__", &column_text, nb::sig("def __repr__(self) -> str"))
      .def("__arrow_c_schema__", &schema_capsule, nb::sig("def __arrow_c_schema__(self) -> object"))
      .def("__arrow_c_array__", &array_capsules, nb::arg("requested_schema").none() = nb::none(),
           nb::sig("def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]"))
      .def("tolist", &column_list, nb::sig("def tolist(self) -> list[int]"), "The integers as a list.");
}

}  // namespace palio::python
