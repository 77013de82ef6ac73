// palio.bench._baselines: the engines that the index is measured against.
#include <Python.h>
#include <datetime.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "../convert.hpp"
#include "counting.hpp"
#include "linear.hpp"
#include "pairhash.hpp"

namespace nb = nanobind;

namespace palio::baselines {

template <class Engine>
class Bench {
 public:
  Bench() { names_.intern(""); }  // becomes no_name

  void add(const nb::list& filters) {
    python::FilterReader reader;
    Compiled compiled;
    std::vector<Constraint> constraints;
    for (nb::handle filter : filters) {
      if (!reader.is_filter(filter)) throw nb::type_error("expected a list of filters");
      constraints.clear();
      reader.read(filter, [&](std::string_view name, Constraint constraint) {
        constraint.name = names_.intern(name);
        constraints.push_back(constraint);
      });
      compiled.compile(constraints, Hasher());
      engine_.add(compiled);
    }
    engine_.build();
    events_.clear();  // may lack names that are known only now
    engine_.prepare(events_);
    output_.clear();
  }

  void prepare(const nb::list& notifications) {
    events_.clear();
    output_.clear();
    nb::object type = nb::module_::import_("palio.model").attr("Notification");
    for (nb::handle notification : notifications) {
      if (!nb::isinstance(notification, type)) throw nb::type_error("expected a list of notifications");
      nb::dict attributes = nb::cast<nb::dict>(notification.attr("_attributes"));
      events_.begin();
      for (auto [name, value] : attributes) {
        NameId known;
        if (names_.find(python::utf8(name.ptr()), known)) events_.add(known, python::to_value(value.ptr()));
      }
    }
    engine_.prepare(events_);
  }

  size_t match_all(size_t first, size_t last) {
    last = std::min(last, events_.size());
    nb::gil_scoped_release unlocked;
    output_.clear();
    if (first < last) engine_.match(events_, first, last, output_);
    return output_.size();
  }

  nb::list results() const {
    nb::list results;
    for (size_t event = 0; event < output_.events(); ++event) results.append(write_list(event));
    return results;
  }

  // Writes the last result, which is known, into fresh arrays: what any engine has to do at least.
  size_t write_out() const {
    nb::gil_scoped_release unlocked;
    std::unique_ptr<int32_t[]> rows(new int32_t[output_.size()]);
    std::unique_ptr<int64_t[]> ids(new int64_t[output_.size()]);
    for (size_t event = 0; event < output_.events(); ++event) {
      size_t start = output_.start_of(event), end = output_.end_of(event);
      std::fill(rows.get() + start, rows.get() + end, static_cast<int32_t>(event));
      std::copy(output_.ids() + start, output_.ids() + end, ids.get() + start);
    }
    asm volatile("" : : "r"(rows.get()), "r"(ids.get()) : "memory");  // the compiler must not drop what nobody reads
    return output_.size();
  }

  nb::object write_list(size_t event) const {
    if (event >= output_.events()) throw nb::index_error("no such event in the last result");
    size_t start = output_.start_of(event), count = output_.end_of(event) - start;
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
    if (!list.is_valid()) throw nb::python_error();
    for (size_t i = 0; i < count; ++i) {
      PyObject* id = PyLong_FromLongLong(output_.ids()[start + i]);
      if (id == nullptr) throw nb::python_error();
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), id);
    }
    return list;
  }

  size_t size() const { return engine_.size(); }
  size_t memory_usage() const { return engine_.memory_usage(); }

 private:
  Engine engine_;
  Interner names_;
  Events events_;
  Output output_;
};

template <class Engine>
void bind(nb::module_& module, const char* name, const char* about) {
  using B = Bench<Engine>;
  nb::class_<B>(module, name, about)
      .def(nb::init<>())
      .def("add", &B::add, nb::arg("filters"),
           nb::sig("def add(self, filters: list[palio.model.Filter]) -> None"),
           "Add filters, all that there will be: everything is built anew. Ids are positions in order of adding.")
      .def("prepare", &B::prepare, nb::arg("events"),
           nb::sig("def prepare(self, events: list[palio.model.Notification]) -> None"),
           "Keep the events in the form that the engine works on.")
      .def("match_all", &B::match_all, nb::arg("first") = 0, nb::arg("last") = SIZE_MAX,
           nb::sig("def match_all(self, first: int = 0, last: int = ...) -> int"),
           "Match the prepared events, or some of them, and write out (row, id) pairs, ids of a row sorted; how many.")
      .def("results", &B::results, nb::sig("def results(self) -> list[list[int]]"),
           "The ids that the last match_all found, event by event.")
      .def("write_out", &B::write_out, "Write the pairs of the last match_all into fresh arrays; how many.")
      .def("write_list", &B::write_list, nb::arg("event"), nb::sig("def write_list(self, event: int) -> list[int]"),
           "The ids that the last match_all found for one event, as a fresh list.")
      .def("memory_usage", &B::memory_usage, "Bytes that the filters take.")
      .def("__len__", &B::size);
}

}  // namespace palio::baselines

NB_MODULE(_baselines, module) {
  using namespace palio::baselines;
  PyDateTime_IMPORT;
  module.doc() = "Engines that the index is measured against; for benchmarks only.";
  bind<Linear>(module, "Linear", "A linear scan: each filter is tested up to its first predicate that fails.");
  bind<Counting>(module, "Counting", "The counting algorithm: satisfied predicates count for their filters.");
  bind<PairHash>(module, "PairHash", "A hash on pairs of equalities for workload W1 alone: the ceiling.");
}
