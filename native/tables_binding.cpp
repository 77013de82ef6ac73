// palio._core.EventTables: frames of a log as Arrow tables, for Python. Conversions, and nothing else.
#include "tables_binding.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <tuple>

#include "arrow_binding.hpp"
#include "tables.hpp"

namespace nb = nanobind;

namespace palio::python {

namespace {

using Keeper = std::shared_ptr<const EventTable>;

// An exported array with what it refers to; children belong to their parent until somebody takes them.
struct ArrayNode {
  Keeper table;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> places;
};

struct SchemaNode {
  std::string name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> places;
};

template <class Struct, class Node>
void release(Struct* self) {
  for (Struct& child : static_cast<Node*>(self->private_data)->children) {
    if (child.release != nullptr) child.release(&child);
  }
  delete static_cast<Node*>(self->private_data);
  self->release = nullptr;
}

template <class Node>
void link_children(Node& node) {
  for (auto& child : node.children) node.places.push_back(&child);
}

ArrowArray array_of(Keeper table, int64_t rows, int64_t nulls, std::vector<const void*> buffers,
                    std::vector<ArrowArray> children = {}) {
  auto node = std::make_unique<ArrayNode>(ArrayNode{std::move(table), std::move(buffers), std::move(children), {}});
  link_children(*node);
  ArrowArray array{rows, nulls, 0, static_cast<int64_t>(node->buffers.size()), static_cast<int64_t>(node->places.size()),
                   node->buffers.data(), node->places.data(), nullptr, &release<ArrowArray, ArrayNode>, nullptr};
  array.private_data = node.release();
  return array;
}

ArrowSchema schema_of(const char* format, std::string name, bool is_nullable, std::vector<ArrowSchema> children = {}) {
  auto node = std::make_unique<SchemaNode>(SchemaNode{std::move(name), std::move(children), {}});
  link_children(*node);
  ArrowSchema schema{format, node->name.c_str(), nullptr, is_nullable ? ARROW_FLAG_NULLABLE : 0,
                     static_cast<int64_t>(node->places.size()), node->places.data(), nullptr,
                     &release<ArrowSchema, SchemaNode>, nullptr};
  schema.private_data = node.release();
  return schema;
}

ArrowArray column_array(const Keeper& table, const ColumnBuilder& column) {
  return array_of(table, column.rows(), column.nulls(), column.buffers());
}

class PyTable {
 public:
  explicit PyTable(std::shared_ptr<EventTable> table) : table_(std::move(table)) {}

  int64_t rows() const { return table_->rows; }

  nb::list names() const {
    nb::list names;
    for (const EventTable::Named& named : table_->attributes) names.append(to_str(named.name));
    return names;
  }

  // Columns go by number: a name may have a NUL, which the interface cannot say.
  ArrowSchema schema() const {
    std::vector<ArrowSchema> children, envelope, payload;
    for (size_t i = 0; i < table_->attributes.size(); ++i) {
      children.push_back(schema_of(table_->attributes[i].column.format(), std::to_string(i), true));
    }
    for (size_t i = 0; i < table_->envelope.size(); ++i) {
      bool is_nullable = i >= first_optional;
      envelope.push_back(schema_of(table_->envelope[i].format(), EventTable::envelope_names[i], is_nullable));
    }
    for (size_t i = 0; i < table_->payload.size(); ++i) {
      payload.push_back(schema_of(table_->payload[i].format(), EventTable::payload_names[i], true));
    }
    children.push_back(schema_of("+s", "envelope", false, std::move(envelope)));
    children.push_back(schema_of("+s", "payload", true, std::move(payload)));
    return schema_of("+s", "", false, std::move(children));
  }

  ArrowArray array() const {
    std::vector<ArrowArray> children, envelope, payload;
    for (const EventTable::Named& named : table_->attributes) children.push_back(column_array(table_, named.column));
    for (const ColumnBuilder& column : table_->envelope) envelope.push_back(column_array(table_, column));
    for (const ColumnBuilder& column : table_->payload) payload.push_back(column_array(table_, column));
    const ColumnBuilder& data = table_->payload[0];  // there is a payload where it has data, be they empty
    children.push_back(array_of(table_, table_->rows, 0, {nullptr}, std::move(envelope)));
    children.push_back(array_of(table_, table_->rows, data.nulls(), {data.buffers()[0]}, std::move(payload)));
    return array_of(table_, table_->rows, 0, {nullptr}, std::move(children));
  }

 private:
  static constexpr size_t first_optional = 6;  // of the envelope: expires, key and trace
  Keeper table_;
};

class PyTables {
 public:
  PyTables(const std::string& origin, nb::object fold, size_t tables, size_t columns, size_t bytes)
      : tables(origin,
               [fold](std::string_view name) {
                 nb::object folded = fold(to_str(name));
                 return nb::cast<std::string>(folded);
               },
               {tables, columns, bytes}) {}

  EventTables tables;
};

size_t add(PyTables& self, const nb::bytes& frames, size_t offset, int64_t position) {
  return self.tables.add(reinterpret_cast<const uint8_t*>(frames.c_str()), frames.size(), offset, position);
}

nb::object take(PyTables& self) {
  std::shared_ptr<EventTable> table = self.tables.take();
  return table == nullptr ? nb::none() : nb::cast(PyTable(std::move(table)));
}

nb::list take_bad(PyTables& self) {
  nb::list bad;
  for (const BadFrame& each : self.tables.bad) bad.append(nb::make_tuple(each.offset, to_str(each.problem)));
  self.tables.bad.clear();
  return bad;
}

nb::tuple capsules(const PyTable& table, nb::handle) {
  return nb::make_tuple(
      make_capsule<ArrowSchema>("arrow_schema", [&](ArrowSchema* schema) { *schema = table.schema(); }),
      make_capsule<ArrowArray>("arrow_array", [&](ArrowArray* array) { *array = table.array(); }));
}

}  // namespace

void register_tables(nb::module_& module) {
  nb::class_<PyTable>(module, "EventTable",
                      "Notifications as columns: those of attributes, in the order of their names, then the structs\n"
                      "envelope and payload. Arrow libraries read it in place.")
      .def_prop_ro("names", &PyTable::names, nb::sig("def names(self) -> list[str]"),
                   "The names of the attributes; the columns themselves go by number.")
      .def("__len__", &PyTable::rows)
      .def("__arrow_c_array__", &capsules, nb::arg("requested_schema").none() = nb::none(),
           nb::sig("def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]"));
  nb::class_<PyTables>(module, "EventTables", "Frames of a log on their way into tables; see palio.archive.tables.")
      .def(nb::init<const std::string&, nb::object, size_t, size_t, size_t>(), nb::arg("origin"), nb::arg("fold"),
           nb::kw_only(), nb::arg("tables"), nb::arg("columns"), nb::arg("bytes"),
           nb::sig("def __init__(self, origin: str, fold: collections.abc.Callable[[str], str], *, tables: int, "
                   "columns: int, bytes: int) -> None"))
      .def("add", &add, nb::arg("frames"), nb::arg("offset"), nb::arg("position"),
           nb::sig("def add(self, frames: bytes, offset: int, position: int) -> int"),
           "Take frames from an offset on; how far it came. If not to the end, take() the largest table first.")
      .def("take", &take, nb::sig("def take(self) -> EventTable | None"), "The largest table, if there is one.")
      .def("take_bad", &take_bad, nb::sig("def take_bad(self) -> list[tuple[int, str]]"),
           "Where frames were that could not be read, and why.")
      .def_prop_ro("rows", [](const PyTables& self) { return self.tables.rows; }, "That wait in all tables.")
      .def_prop_ro("bytes", [](const PyTables& self) { return self.tables.bytes(); }, "Of memory for them.")
      .def_prop_ro("taken", [](const PyTables& self) { return self.tables.taken; }, "Notifications so far.")
      .def_prop_ro("foreign", [](const PyTables& self) { return self.tables.foreign; }, "Those of other origins.")
      .def_prop_ro("repeated", [](const PyTables& self) { return self.tables.repeated; }, "Those that came again.")
      .def_prop_rw("mark",
                   [](const PyTables& self) { return nb::make_tuple(self.tables.incarnation, self.tables.sequence); },
                   [](PyTables& self, std::pair<int64_t, int64_t> mark) {
                     std::tie(self.tables.incarnation, self.tables.sequence) = mark;
                   },
                   nb::for_getter(nb::sig("def mark(self) -> tuple[int, int]")),
                   nb::for_setter(nb::sig("def mark(self, mark: tuple[int, int], /) -> None")),
                   "Incarnation and sequence of the last notification; what is not above it counts as repeated.");
}

}  // namespace palio::python
