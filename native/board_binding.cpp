// palio._core.Board: encoded publications on their way to parties, for Python. Conversions, and nothing else.
#include "board_binding.hpp"

#include <nanobind/stl/string.h>

#include "arrow_binding.hpp"
#include "board.hpp"
#include "index_binding.hpp"
#include "scan.hpp"

namespace nb = nanobind;

namespace palio::python {

namespace {

// Bytes of Python's that are read where they lie.
class ReadableBytes {
 public:
  explicit ReadableBytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ReadableBytes(const ReadableBytes&) = delete;
  ReadableBytes& operator=(const ReadableBytes&) = delete;
  ~ReadableBytes() { PyBuffer_Release(&view_); }

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_;
};

class PyBoard {
 public:
  explicit PyBoard(nb::handle index) : shared_(shared_of(index)) {}

  void add(uint64_t id, PartyNumber party) { board_.add(static_cast<Slot>(id), party); }
  void remove(uint64_t id, PartyNumber party) { board_.remove(static_cast<Slot>(id), party); }
  void set_others(uint64_t id, bool has_others) { board_.set_others(static_cast<Slot>(id), has_others); }
  void forget(uint64_t id) { board_.forget(static_cast<Slot>(id)); }

  void set_logged(PartyNumber party, bool is_logged) { board_.set_logged(party, is_logged); }

  nb::tuple dispatch(nb::handle block, const Stamp& stamp, bool everything_goes_on, bool everything_logged,
                     size_t most_bytes, const BodyLimits& limits, uint64_t document_bytes) {
    ReadableBytes bytes(block);
    {
      nb::gil_scoped_release release;
      board_.dispatch(shared_, bytes.data(), bytes.size(), stamp, limits, document_bytes, everything_goes_on,
                      everything_logged, most_bytes);
    }
    nb::list deliveries, others, refused;
    board_.take_all([&](PartyNumber party, const Board::Outgoing& outgoing) {
      deliveries.append(nb::make_tuple(party, nb::bytes(outgoing.frames.data(), outgoing.frames.size()), outgoing.count,
                                       nb::bytes(outgoing.selection.data(), outgoing.selection.size())));
    });
    for (const Other& other : board_.others) {
      others.append(nb::make_tuple(other.offset, other.size, other.sequence, other.published));
    }
    for (const RefusedPublication& each : board_.refused) {
      refused.append(nb::make_tuple(each.number, error_of(each.failure)));
    }
    return nb::make_tuple(board_.consumed, board_.accepted, board_.last_number, deliveries, others, refused,
                          nb::bytes(board_.log.data(), board_.log.size()), board_.log_count);
  }

 private:
  static nb::object error_of(const std::exception_ptr& pointer) {
    try {
      std::rethrow_exception(pointer);
    } catch (const DecodeFailure& failure) {
      return to_error(failure);
    }
  }

  SharedIndex& shared_;
  Board board_;
};

}  // namespace

void register_board(nb::module_& module) {
  module.def("scan_frames", [](nb::handle data, size_t most) {
    ReadableBytes bytes(data);
    const Scan scan = scan_frames(bytes.data(), bytes.size(), most);
    nb::list runs;
    for (const FrameRun& run : scan.runs) runs.append(nb::make_tuple(run.kind, run.begin, run.end));
    return nb::make_tuple(runs, scan.consumed, scan.is_bad);
  }, nb::arg("data"), nb::arg("most"),
     nb::sig("def scan_frames(data: bytes | bytearray | memoryview, most: int) -> tuple[list[tuple[int, int, int]], int, bool]"),
     "Find whole frames, of at most so many bytes: kind, begin and end of each, of publications in a row together; how "
     "far they go; and whether what follows is empty or too long.");
  nb::class_<PyBoard>(module, "Board", "Who holds which filters of an index; use it as palio.routing.board.Board.")
      .def(nb::init<nb::handle>(), nb::arg("index"), nb::keep_alive<1, 2>(), nb::sig("def __init__(self, index: Index) -> None"))
      .def("add", &PyBoard::add, nb::arg("id"), nb::arg("party"))
      .def("remove", &PyBoard::remove, nb::arg("id"), nb::arg("party"))
      .def("set_others", &PyBoard::set_others, nb::arg("id"), nb::arg("has_others"))
      .def("forget", &PyBoard::forget, nb::arg("id"))
      .def("set_logged", &PyBoard::set_logged, nb::arg("party"), nb::arg("is_logged"))
      .def("dispatch", [](PyBoard& board, nb::handle block, const std::string& origin, uint64_t incarnation,
                          uint64_t sequence, int64_t published, const std::string& publisher, bool everything_goes_on,
                          bool everything_logged, size_t most_bytes, uint64_t attributes, uint64_t name_bytes,
                          uint64_t value_bytes, uint64_t payload_bytes, uint64_t document_bytes) {
             return board.dispatch(block, {origin, incarnation, sequence, published, publisher}, everything_goes_on,
                                   everything_logged, most_bytes, {attributes, name_bytes, value_bytes, payload_bytes}, document_bytes);
           },
           nb::arg("block"), nb::arg("origin"), nb::arg("incarnation"), nb::arg("sequence"), nb::arg("published"),
           nb::arg("publisher"), nb::arg("everything_goes_on"), nb::arg("everything_logged"), nb::arg("most_bytes"),
           nb::arg("attributes"),
           nb::arg("name_bytes"), nb::arg("value_bytes"), nb::arg("payload_bytes"), nb::arg("document_bytes"),
           nb::sig("def dispatch(self, block: bytes | bytearray | memoryview, origin: str, incarnation: int, sequence: int, "
                   "published: int, publisher: str, everything_goes_on: bool, everything_logged: bool, most_bytes: int, attributes: int, "
                   "name_bytes: int, value_bytes: int, payload_bytes: int, document_bytes: int) -> "
                   "tuple[int, int, int, list[tuple[int, bytes, int, bytes]], list[tuple[int, int, int, int]], "
                   "list[tuple[int, palio.errors.PalioError]], bytes, int]"));
}

}  // namespace palio::python
