// palio._core.Index: the index for Python. Conversions and locking, and nothing else.
#include "index_binding.hpp"

#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "arrow_binding.hpp"
#include "batch.hpp"
#include "convert.hpp"
#include "reread.hpp"

namespace nb = nanobind;

namespace palio::python {

namespace {

// Does something that needs no interpreter with the lock. Whoever has to wait for the lock lets the interpreter go, and
// takes it back only after giving the lock back: nobody ever waits for one of the two while holding the other.
template <class Work>
auto writing(FairLock& lock, Work work) {
  if (lock.try_lock()) {
    std::unique_lock<FairLock> hold(lock, std::adopt_lock);
    return work();
  }
  nb::gil_scoped_release release;
  std::unique_lock<FairLock> hold(lock);
  return work();
}

template <class Work>
auto reading(FairLock& lock, Work work) {
  if (lock.try_lock_shared()) {
    std::shared_lock<FairLock> hold(lock, std::adopt_lock);
    return work();
  }
  nb::gil_scoped_release release;
  std::shared_lock<FairLock> hold(lock);
  return work();
}

// A workspace from the index's pool, with a clean event.
class Borrowed {
 public:
  explicit Borrowed(SharedIndex& index) : index_(index), workspace_(index.take_workspace()) {
    workspace_->matcher.event.clear();
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() { index_.give_workspace(std::move(workspace_)); }
  Workspace* operator->() { return workspace_.get(); }
  Workspace& operator*() { return *workspace_; }
  Event& event() { return workspace_->matcher.event; }

 private:
  SharedIndex& index_;
  std::unique_ptr<Workspace> workspace_;
};

struct BatchReading {
  BodyLimits body;
  uint64_t document_bytes;
  bool rounds_decimals;
};

struct FilterLimits {
  uint64_t constraints, name_bytes, literal_bytes;
};

[[noreturn]] void raise(const char* error, const std::string& message) {
  nb::object type = nb::module_::import_("palio.errors").attr(error);
  PyErr_SetObject(type.ptr(), nb::str(message.c_str(), message.size()).ptr());
  throw nb::python_error();
}

void within(uint64_t actual, const char* limit, uint64_t allowed, const char* what) {
  if (actual > allowed) throw CapacityFailure(limit, allowed, actual, what);
}

// Numbers of 64 bits in an object of Python's that can be written to.
class WritableNumbers {
 public:
  explicit WritableNumbers(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
      PyErr_Clear();
      raise("CallerError", "counts: no writable array of 64-bit integers");
    }
    std::string_view format(view_.format == nullptr ? "B" : view_.format);
    if (view_.itemsize != 8 || view_.ndim != 1 || (format != "q" && format != "l")) {
      PyBuffer_Release(&view_);
      raise("CallerError", "counts: no writable array of 64-bit integers");
    }
  }
  WritableNumbers(const WritableNumbers&) = delete;
  WritableNumbers& operator=(const WritableNumbers&) = delete;
  ~WritableNumbers() { PyBuffer_Release(&view_); }

  int64_t* data() { return static_cast<int64_t*>(view_.buf); }
  uint64_t size() const { return static_cast<uint64_t>(view_.len) / sizeof(int64_t); }

 private:
  Py_buffer view_;
};

// Numbers of 32 bits in an object of Python's: for each filter the first one of its union.
class PyUnions {
 public:
  explicit PyUnions(nb::handle owners) {
    constexpr const char* problem = "owners: no array of unsigned 32-bit integers";
    if (PyObject_GetBuffer(owners.ptr(), &view_, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
      PyErr_Clear();
      raise("CallerError", problem);
    }
    std::string_view format(view_.format == nullptr ? "B" : view_.format);
    bool is_right = view_.itemsize == 4 && view_.ndim == 1 && (format == "I" || format == "L");
    const uint32_t* numbers = static_cast<const uint32_t*>(view_.buf);
    uint64_t size = static_cast<uint64_t>(view_.len) / sizeof(uint32_t);
    bool is_sound = is_right && Unions::are_owners(numbers, size);
    if (is_sound) unions_.emplace(numbers, size);
    if (is_sound) return;
    PyBuffer_Release(&view_);
    raise("CallerError", is_right ? "owners: each is the number of the first filter of a union" : problem);
  }
  PyUnions(const PyUnions&) = delete;
  PyUnions& operator=(const PyUnions&) = delete;
  ~PyUnions() { PyBuffer_Release(&view_); }

  const Unions& unions() const { return *unions_; }

 private:
  Py_buffer view_;
  std::optional<Unions> unions_;
};

// What a call needs to leave out repeated unions, if it was given unions.
class GivenUnions {
 public:
  explicit GivenUnions(const PyUnions* given) {
    if (given != nullptr) reducer_.emplace(given->unions());
  }
  UnionReducer* reducer() { return reducer_ ? &*reducer_ : nullptr; }

 private:
  std::optional<UnionReducer> reducer_;
};

class PyIndex {
 public:
  explicit PyIndex(uint64_t seed) : shared_(Hasher(seed)) {}
  explicit PyIndex(const nb::bytes& path) : shared_(std::string(path.c_str(), path.size())) {}

  uint64_t add(nb::handle filter, const FilterLimits& limits) {
    check_writable();
    Pending pending = read(filter, limits);
    return writing(shared_.lock, [&] { return insert(pending); });
  }

  // All or nothing: the filters are read before the first one is added, and taken out again if a later one fails.
  nb::list add_many(nb::handle filters, const FilterLimits& limits) {
    check_writable();
    std::vector<Pending> pending;
    for (nb::handle filter : nb::iter(filters)) pending.push_back(read(filter, limits));
    auto locked = [&](auto work) { writing(shared_.lock, work); };
    auto ids = insert_all(pending.size(), [&](size_t i) { return insert(pending[i]); }, locked);
    return to_list(ids.begin(), ids.end());
  }

  // Adds the filters of a dumped index, without making Python objects of them; all or nothing.
  ResultColumn add_dumped(const nb::bytes& dumped, const FilterLimits& limits) {
    check_writable();
    nb::gil_scoped_release release;
    const uint8_t* data = reinterpret_cast<const uint8_t*>(dumped.c_str());
    std::vector<Bucket> aligned;  // a copy, should the bytes not lie where structures can be read
    if (reinterpret_cast<uintptr_t>(data) % alignof(Bucket) != 0) {
      aligned.resize(dumped.size() / sizeof(Bucket) + 1);
      data = static_cast<const uint8_t*>(std::memcpy(aligned.data(), data, dumped.size()));
    }
    const View view = view_of_file(data, dumped.size());
    if (!is_whole_file(view, data)) throw FileFailure("damaged: its checksum is not what was written");
    const FilterSource source(view);
    const std::vector<Slot> slots = source.slots();
    Compiled filter;
    for (Slot slot : slots) {
      source.read(slot, filter);
      check_limits(source, filter, limits);
    }
    auto insert_one = [&](size_t i) {
      source.read(slots[i], filter);
      return source.add_to(shared_.index(), filter);
    };
    auto locked = [&](auto work) {
      std::unique_lock<FairLock> hold(shared_.lock);
      work();
    };
    Buffer<int64_t> ids;
    for (uint64_t id : insert_all(slots.size(), insert_one, locked)) ids.push_back(static_cast<int64_t>(id));
    return ResultColumn(std::move(ids));
  }

  void remove(uint64_t id) {
    check_writable();
    bool is_known = writing(shared_.lock, [&] {
      if (!shared_.index().contains(id)) return false;
      shared_.index().remove(id);
      return true;
    });
    // Errors are made without the lock: Python may run other code meanwhile, which may want it.
    if (!is_known) raise("UnknownFilterError", "no filter has the id " + std::to_string(id));
  }

  bool contains(uint64_t id) {
    return reading(shared_.lock, [&] {
      View view = shared_.view();
      Slot slot = static_cast<Slot>(id);
      return slot < view.slots && view.places[slot].record != 0 && view.places[slot].generation == id >> 32;
    });
  }

  nb::object match(const nb::dict& attributes, bool only_one) {
    Borrowed workspace(shared_);
    std::vector<std::pair<std::string_view, Value>>& given = workspace->given;
    given.clear();
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(attributes.ptr(), &position, &name, &value)) given.emplace_back(utf8(name), to_value(value));
    reading(shared_.lock, [&] {
      View view = shared_.view();
      for (const auto& [text, known_value] : given) {
        const NameObject* known = view.find_name(text);
        if (known != nullptr) workspace.event().add(known->id, known_value);
      }
      run(*workspace, view, only_one);
    });
    shared_.care();
    return result(*workspace, only_one);
  }

  nb::object match_encoded(const nb::bytes& body, const BodyLimits& limits) {
    Borrowed workspace(shared_);
    reading(shared_.lock, [&] {
      View view = shared_.view();
      BodyVisitor visitor{view, workspace.event()};
      read_body(reinterpret_cast<const uint8_t*>(body.c_str()), body.size(), limits, visitor);
      run(*workspace, view, false);
    });
    shared_.care();
    return result(*workspace, false);
  }

  // Rows, ids, where to go on (a row, or -1; what was found for it already, and how much of that was handed out), and what
  // could not be read.
  nb::tuple match_batch(nb::handle object, nb::handle bodies, const BatchReading& reading, const PyUnions* unions,
                        uint64_t most, bool whole_rows, int64_t after_row, const ResultColumn* rest, uint64_t taken,
                        bool report_unreadable) {
    RestOfRow after{std::max<int64_t>(after_row, 0)};
    if (rest != nullptr && rest->is_wide() && taken < static_cast<uint64_t>(rest->size())) {
      const int64_t* ids = rest->wide();
      after.begin = ids + taken, after.end = ids + rest->size();
    }
    PairSink sink(most, whole_rows, after);
    GivenUnions given(unions);
    Unreadable unreadable;
    run_batch(object, bodies, reading, given.reducer(), sink, report_unreadable ? &unreadable : nullptr);
    sink.shrink();
    bool is_over = !sink.is_full() || sink.is_done();
    int64_t next = is_over ? -1 : sink.next_row();
    bool is_same_row = next >= 0 && !after.is_empty() && next == after.row;
    nb::object rows = nb::cast(ResultColumn(std::move(sink.rows))), ids = nb::cast(ResultColumn(std::move(sink.ids)));
    nb::object left = is_same_row ? nb::cast(*rest) : nb::cast(ResultColumn(std::move(sink.rest)));
    uint64_t handed_out = is_same_row ? taken + sink.taken() : 0;
    return nb::make_tuple(rows, ids, next, left, handed_out, to_errors(unreadable));
  }

  ResultColumn match_counts(nb::handle object, nb::handle bodies, const BatchReading& reading) {
    CountSink sink;
    run_batch(object, bodies, reading, nullptr, sink, nullptr);
    return ResultColumn(std::move(sink.counts));
  }

  // Adds to counts of 64 bits, one for each id; returns what could not be read.
  nb::list tally(nb::handle object, nb::handle bodies, nb::handle counts, const BatchReading& reading,
                 const PyUnions* unions, bool report_unreadable) {
    WritableNumbers numbers(counts);
    GivenUnions given(unions);
    TallySink sink(numbers.data(), numbers.size(), given.reducer());
    Unreadable unreadable;
    run_batch(object, bodies, reading, given.reducer(), sink, report_unreadable ? &unreadable : nullptr);
    return to_errors(unreadable);
  }

  SharedIndex& shared() { return shared_; }

  size_t size() {
    return reading(shared_.lock, [&] { return shared_.view().filters; });
  }

  size_t memory_usage() {
    return reading(shared_.lock, [&] { return shared_.memory_usage(); });
  }

  // Filters, names, nodes, partitions by their way, filters refiled, events, filters tested, bytes.
  nb::tuple stats() {
    auto [view, census, bytes] = reading(shared_.lock, [&] {
      return std::tuple(shared_.view(), shared_.census(), shared_.memory_usage());
    });
    const char* names[] = {"equal",  "cell",     "lower", "upper", "prefix",
                           "suffix", "contains", "name",  "group", "pair"};
    nb::dict partitions;
    for (size_t i = 0; i < ways; ++i) partitions[names[i]] = census.partitions[i];
    return nb::make_tuple(view.filters, census.names, view.nodes, partitions, census.refiled, shared_.events(),
                          shared_.tested(), bytes);
  }

  nb::bytes dumps() {
    std::string bytes = snapshot();
    return nb::bytes(bytes.data(), bytes.size());
  }

  // The disk may be slow, so the index is copied first: nobody waits for it with the lock.
  void dump(const nb::bytes& path) {
    std::string bytes = snapshot();
    nb::gil_scoped_release release;
    write_file(std::string(path.c_str(), path.size()), [&](auto put) { put(bytes.data(), bytes.size()); });
  }

  bool is_whole() {
    if (!shared_.is_mapped()) return true;
    nb::gil_scoped_release release;
    return shared_.file().is_whole();
  }

 private:
  template <class Sink>
  void run_batch(nb::handle object, nb::handle bodies, const BatchReading& reading, UnionReducer* reducer, Sink& sink,
                 Unreadable* unreadable) {
    const BodyLimits& limits = reading.body;
    bool has_bodies = !bodies.is_none();
    std::string column = has_bodies ? std::string(utf8(bodies.ptr())) : std::string();
    // A body is a document of its own, not a value.
    uint64_t most = has_bodies ? reading.document_bytes : limits.value_bytes;
    ColumnLimits columns{limits.attributes, limits.name_bytes, most, sink.most_pairs()};
    TakenBatch taken(object, {columns, reading.rounds_decimals}, shared_.hasher());
    const ArrowBatch& batch = taken.batch();
    if (batch.rows() > most_rows) {
      throw CapacityFailure("rows", most_rows, static_cast<uint64_t>(batch.rows()), "rows in one batch");
    }
    nb::gil_scoped_release release;
    if (!has_bodies) return match_rows(shared_, batch.rows(), AttributeRows(batch), reducer, sink, unreadable);
    size_t place = 0;
    while (place < batch.columns() && batch.name(place) != column) ++place;
    if (place == batch.columns()) {
      throw ColumnFailure(ColumnFailure::Code::batch, "the batch has no column of this name").in(column);
    }
    match_rows(shared_, batch.rows(), BodyRows(batch, place, limits), reducer, sink, unreadable);
  }

  void run(Workspace& workspace, const View& view, bool only_one) {
    workspace.run(view, only_one);
    shared_.observe(&workspace.matcher.event, 1, workspace.matcher.tested());
  }

  struct Pending {
    std::vector<std::pair<std::string_view, Constraint>> constraints;
    nb::object kept;  // what their texts live in
  };

  std::string snapshot() {
    nb::gil_scoped_release release;
    std::string bytes;
    std::shared_lock<FairLock> hold(shared_.lock);
    shared_.write([&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); });
    return bytes;
  }

  Pending read(nb::handle filter, const FilterLimits& limits) {
    if (!reader_.is_filter(filter)) {
      nb::object quoted = nb::module_::import_("palio.errors").attr("brief")(filter);
      raise("CallerError", nb::cast<std::string>(quoted) + " is no Filter; Filter.parse(...) reads text");
    }
    Pending pending;
    pending.kept = reader_.read(filter, [&](std::string_view name, const Constraint& constraint) {
      within(name.size(), "name_bytes", limits.name_bytes, "bytes in a name");
      within(constraint.literal.text.size(), "literal_bytes", limits.literal_bytes, "bytes in a literal");
      pending.constraints.emplace_back(name, constraint);
    });
    within(pending.constraints.size(), "constraints", limits.constraints, "constraints in one filter");
    return pending;
  }

  static void check_limits(const FilterSource& source, const Compiled& filter, const FilterLimits& limits) {
    within(filter.predicates.size(), "constraints", limits.constraints, "constraints in one filter");
    for (const Predicate& predicate : filter.predicates) {
      within(source.name(predicate.name).size(), "name_bytes", limits.name_bytes, "bytes in a name");
      if (!has_literal(predicate.test)) continue;
      within(predicate.literal.size, "literal_bytes", limits.literal_bytes, "bytes in a literal");
    }
  }

  // Inserts so many; others get their turn in between. If one fails, those before it are taken out again.
  template <class Insert, class Locked>
  std::vector<uint64_t> insert_all(size_t count, Insert insert_one, Locked locked) {
    constexpr size_t at_once = 256;
    std::vector<uint64_t> ids;
    ids.reserve(count);
    try {
      for (size_t begin = 0; begin < count; begin += at_once) {
        locked([&] {
          for (size_t i = begin; i < std::min(begin + at_once, count); ++i) ids.push_back(insert_one(i));
        });
      }
    } catch (...) {
      locked([&] {
        for (uint64_t id : ids) {
          if (shared_.index().contains(id)) shared_.index().remove(id);
        }
      });
      throw;
    }
    return ids;
  }

  uint64_t insert(Pending& pending) {
    Index& index = shared_.index();
    constraints_.clear();
    constraints_.reserve(pending.constraints.size());
    try {
      for (auto& [name, constraint] : pending.constraints) {
        constraint.name = index.name_id(name);
        constraints_.push_back(constraint);
      }
      compiled_.compile(constraints_, shared_.hasher());
      return index.add(compiled_);
    } catch (...) {
      for (const Constraint& constraint : constraints_) index.forget_unused_name(constraint.name);
      throw;
    }
  }

  void check_writable() const {
    if (shared_.is_mapped()) {
      raise("ReadOnlyError", "this index is a file that was opened for matching; build a FilterIndex to change it");
    }
  }

  // For each value, or body, that cannot be read: its row, the number of its column, and the error that says why.
  static nb::list to_errors(const Unreadable& unreadable) {
    std::vector<nb::object> errors;
    for (const std::exception_ptr& failure : unreadable.failures) errors.push_back(to_error(failure));
    nb::list told;
    for (const auto& [row, column, failure] : unreadable.places) {
      told.append(nb::make_tuple(row, column, errors[failure]));
    }
    return told;
  }

  static nb::object to_error(const std::exception_ptr& pointer) {
    try {
      std::rethrow_exception(pointer);
    } catch (const ColumnFailure& failure) {
      return python::to_error(failure);
    } catch (const DecodeFailure& failure) {
      return python::to_error(failure);
    }
  }

  static nb::object result(const Workspace& workspace, bool only_one) {
    if (only_one) return nb::bool_(workspace.count() != 0);
    return workspace.visit([](auto begin, auto end) { return to_list(begin, end); });
  }

  template <class Iterator>
  static nb::list to_list(Iterator begin, Iterator end) {
    nb::list list = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(end - begin)));
    if (!list.is_valid()) throw nb::python_error();
    for (Iterator at = begin; at != end; ++at) {
      PyObject* id = PyLong_FromUnsignedLongLong(*at);
      if (id == nullptr) throw nb::python_error();
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(at - begin), id);
    }
    return list;
  }

  SharedIndex shared_;
  FilterReader reader_;
  std::vector<Constraint> constraints_;  // workspaces of whoever holds the lock for writing
  Compiled compiled_;
};

}  // namespace

SharedIndex& shared_of(nb::handle index) { return nb::cast<PyIndex&>(index).shared(); }

void register_index(nb::module_& module) {
  PyDateTime_IMPORT;  // each source file has a table of its own
  nb::class_<PyUnions>(module, "Unions", "Which filters are one union; use it as palio.matching.Unions.")
      .def("__init__", [](PyUnions* unions, nb::handle owners) { new (unions) PyUnions(owners); },
           nb::arg("owners").none(), nb::sig("def __init__(self, owners: object) -> None"))
      .def("__len__", [](const PyUnions& unions) { return unions.unions().size(); });
  nb::class_<PyIndex>(module, "Index", "Filters, indexed; use it as palio.matching.FilterIndex.")
      .def(nb::init<uint64_t>(), nb::arg("seed"))
      .def(nb::init<const nb::bytes&>(), nb::arg("path"))
      .def("add", [](PyIndex& index, nb::handle filter, uint64_t constraints, uint64_t name_bytes,
                     uint64_t literal_bytes) { return index.add(filter, {constraints, name_bytes, literal_bytes}); },
           nb::arg("filter").none(), nb::arg("constraints"), nb::arg("name_bytes"), nb::arg("literal_bytes"))
      .def("add_many", [](PyIndex& index, nb::handle filters, uint64_t constraints, uint64_t name_bytes,
                          uint64_t literal_bytes) { return index.add_many(filters, {constraints, name_bytes, literal_bytes}); },
           nb::arg("filters").none(), nb::arg("constraints"), nb::arg("name_bytes"), nb::arg("literal_bytes"),
           nb::sig("def add_many(self, filters: collections.abc.Iterable[palio.model.Filter], constraints: int, "
                   "name_bytes: int, literal_bytes: int) -> list[int]"))
      .def("add_dumped", [](PyIndex& index, const nb::bytes& dumped, uint64_t constraints, uint64_t name_bytes,
                            uint64_t literal_bytes) { return index.add_dumped(dumped, {constraints, name_bytes, literal_bytes}); },
           nb::arg("dumped"), nb::arg("constraints"), nb::arg("name_bytes"), nb::arg("literal_bytes"))
      .def("remove", &PyIndex::remove, nb::arg("id"))
      .def("contains", &PyIndex::contains, nb::arg("id"))
      .def("match", [](PyIndex& index, const nb::dict& attributes) { return index.match(attributes, false); },
           nb::arg("attributes"), nb::sig("def match(self, attributes: dict[str, typing.Any]) -> list[int]"))
      .def("match_any", [](PyIndex& index, const nb::dict& attributes) { return index.match(attributes, true); },
           nb::arg("attributes"), nb::sig("def match_any(self, attributes: dict[str, typing.Any]) -> bool"))
      .def("match_encoded", [](PyIndex& index, const nb::bytes& body, uint64_t attributes, uint64_t name_bytes,
                               uint64_t value_bytes, uint64_t payload_bytes) {
             return index.match_encoded(body, {attributes, name_bytes, value_bytes, payload_bytes});
           },
           nb::arg("body"), nb::arg("attributes"), nb::arg("name_bytes"), nb::arg("value_bytes"),
           nb::arg("payload_bytes"),
           nb::sig("def match_encoded(self, body: bytes, attributes: int, name_bytes: int, value_bytes: int, "
                   "payload_bytes: int) -> list[int]"))
      .def("match_batch", [](PyIndex& index, nb::handle batch, nb::handle bodies, const PyUnions* unions, uint64_t most,
                             bool whole_rows, int64_t after_row, const ResultColumn* rest, uint64_t taken,
                             bool report_unreadable, bool round_decimals, uint64_t attributes, uint64_t name_bytes,
                             uint64_t value_bytes, uint64_t payload_bytes, uint64_t document_bytes) {
             BatchReading reading{{attributes, name_bytes, value_bytes, payload_bytes}, document_bytes, round_decimals};
             return index.match_batch(batch, bodies, reading, unions, most, whole_rows, after_row, rest, taken,
                                      report_unreadable);
           },
           nb::arg("batch").none(), nb::arg("bodies").none(), nb::arg("unions").none(), nb::arg("most"),
           nb::arg("whole_rows"), nb::arg("after_row"), nb::arg("rest").none(), nb::arg("taken"),
           nb::arg("report_unreadable"), nb::arg("round_decimals"), nb::arg("attributes"), nb::arg("name_bytes"),
           nb::arg("value_bytes"), nb::arg("payload_bytes"), nb::arg("document_bytes"),
           nb::sig("def match_batch(self, batch: object, bodies: str | None, unions: Unions | None, most: int, "
                   "whole_rows: bool, after_row: int, rest: Column | None, taken: int, report_unreadable: bool, "
                   "round_decimals: bool, attributes: int, name_bytes: int, value_bytes: int, payload_bytes: int, "
                   "document_bytes: int) -> "
                   "tuple[Column, Column, int, Column, int, list[tuple[int, int, palio.errors.PalioError]]]"))
      .def("tally", [](PyIndex& index, nb::handle batch, nb::handle bodies, nb::handle counts, const PyUnions* unions,
                       bool report_unreadable, bool round_decimals, uint64_t attributes, uint64_t name_bytes,
                       uint64_t value_bytes, uint64_t payload_bytes, uint64_t document_bytes) {
             BatchReading reading{{attributes, name_bytes, value_bytes, payload_bytes}, document_bytes, round_decimals};
             return index.tally(batch, bodies, counts, reading, unions, report_unreadable);
           },
           nb::arg("batch").none(), nb::arg("bodies").none(), nb::arg("counts").none(), nb::arg("unions").none(),
           nb::arg("report_unreadable"), nb::arg("round_decimals"), nb::arg("attributes"), nb::arg("name_bytes"),
           nb::arg("value_bytes"), nb::arg("payload_bytes"), nb::arg("document_bytes"),
           nb::sig("def tally(self, batch: object, bodies: str | None, counts: object, unions: Unions | None, "
                   "report_unreadable: bool, round_decimals: bool, attributes: int, name_bytes: int, value_bytes: int, "
                   "payload_bytes: int, document_bytes: int) -> list[tuple[int, int, palio.errors.PalioError]]"))
      .def("match_counts", [](PyIndex& index, nb::handle batch, nb::handle bodies, bool round_decimals, uint64_t attributes,
                              uint64_t name_bytes, uint64_t value_bytes, uint64_t payload_bytes,
                              uint64_t document_bytes) {
             BatchReading reading{{attributes, name_bytes, value_bytes, payload_bytes}, document_bytes, round_decimals};
             return index.match_counts(batch, bodies, reading);
           },
           nb::arg("batch").none(), nb::arg("bodies").none(), nb::arg("round_decimals"), nb::arg("attributes"), nb::arg("name_bytes"),
           nb::arg("value_bytes"), nb::arg("payload_bytes"), nb::arg("document_bytes"),
           nb::sig("def match_counts(self, batch: object, bodies: str | None, round_decimals: bool, attributes: int, name_bytes: int, "
                   "value_bytes: int, payload_bytes: int, document_bytes: int) -> Column"))
      .def("size", &PyIndex::size)
      .def("memory_usage", &PyIndex::memory_usage)
      .def("stats", &PyIndex::stats,
           nb::sig("def stats(self) -> tuple[int, int, int, dict[str, int], int, int, int, int]"))
      .def("dumps", &PyIndex::dumps)
      .def("dump", &PyIndex::dump, nb::arg("path"))
      .def("is_whole", &PyIndex::is_whole);
}

}  // namespace palio::python
