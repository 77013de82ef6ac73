// palio.bench._load: the load that brokers are measured with. Conversions, and nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "durable.hpp"

namespace nb = nanobind;

namespace palio::load {

namespace {

std::string string_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// Microseconds, such that the given share of the samples is not above.
double quantile_us(std::vector<int64_t>& samples, double share) {
  if (samples.empty()) return 0;
  const size_t at = std::min(samples.size() - 1, static_cast<size_t>(share * static_cast<double>(samples.size())));
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(at), samples.end());
  return static_cast<double>(samples[at]) / 1000;
}

nb::tuple told(Outcome outcome) {
  const double p50 = quantile_us(outcome.latencies, 0.5), p99 = quantile_us(outcome.latencies, 0.99);
  return nb::make_tuple(outcome.sent, outcome.expected, outcome.received, outcome.seconds, outcome.kept_up, p50, p99);
}

nb::tuple told(DurableOutcome outcome) {
  const double p50 = quantile_us(outcome.latencies, 0.5), p99 = quantile_us(outcome.latencies, 0.99);
  return nb::make_tuple(outcome.sent, outcome.accepted, outcome.received, outcome.seconds, outcome.all_seconds, p50, p99);
}

class PyCounter {
 public:
  explicit PyCounter(std::string_view protocol) : counter_(protocol_of(protocol)) {}

  std::vector<nb::bytes> feed(const nb::bytes& data) {
    std::string room(Counter::most_rest, '\0');
    room += string_of(data);
    std::vector<nb::bytes> ends;
    counter_.feed(reinterpret_cast<uint8_t*>(room.data()) + Counter::most_rest, data.size(), [&](const uint8_t* end) {
      ends.emplace_back(end - 8, 8);
    });
    return ends;
  }

 private:
  Counter counter_;
};

}  // namespace

NB_MODULE(_load, module) {
  module.doc() = "Load for brokers, and what counts it; use it through palio.bench.broker.";
  nb::exception<Failure>(module, "LoadError", PyExc_ConnectionError);

  nb::class_<PyCounter>(module, "Counter", "Counts the messages in what a broker sends.")
      .def(nb::init<std::string_view>(), nb::arg("protocol"))
      .def("feed", &PyCounter::feed, nb::arg("data"), "The last eight bytes of each payload that is whole with this.");

  nb::class_<Generator>(module, "Generator", "The first socket publishes, the others receive.")
      .def("__init__", [](Generator* self, std::string_view protocol, const std::vector<int>& sockets, const nb::bytes& block,
                          const std::vector<size_t>& ends, const std::vector<uint64_t>& deliveries) {
             new (self) Generator(protocol_of(protocol), sockets, Traffic{string_of(block), ends, deliveries});
           }, nb::arg("protocol"), nb::arg("sockets"), nb::arg("block"), nb::arg("ends"), nb::arg("deliveries"))
      .def("flood", [](Generator& self, double seconds, uint64_t in_flight, double patience) {
             Outcome outcome;
             {
               nb::gil_scoped_release release;
               outcome = self.flood(seconds, in_flight, patience);
             }
             return told(std::move(outcome));
           }, nb::arg("seconds"), nb::arg("in_flight"), nb::arg("patience"),
           nb::sig("def flood(self, seconds: float, in_flight: int, patience: float) -> "
                   "tuple[int, int, int, float, bool, float, float]"),
           "Send as fast as so many messages in flight allow: sent, expected, received, seconds, and no latencies.")
      .def("pace", [](Generator& self, double per_second, double seconds, uint64_t behind, double patience) {
             Outcome outcome;
             {
               nb::gil_scoped_release release;
               outcome = self.pace(per_second, seconds, behind, patience);
             }
             return told(std::move(outcome));
           }, nb::arg("per_second"), nb::arg("seconds"), nb::arg("behind"), nb::arg("patience"),
           nb::sig("def pace(self, per_second: float, seconds: float, behind: int, patience: float) -> "
                   "tuple[int, int, int, float, bool, float, float]"),
           "Send at a pace: sent, expected, received, seconds, whether the broker kept up, p50 and p99 in microseconds.");

  nb::class_<DurableGenerator>(module, "DurableGenerator", "The first socket publishes, the others are durable parties.")
      .def("__init__", [](DurableGenerator* self, const std::vector<int>& sockets, const std::vector<uint64_t>& first,
                          const std::vector<nb::bytes>& frames, bool acknowledges) {
             std::vector<std::string> copied;
             for (const nb::bytes& frame : frames) copied.push_back(string_of(frame));
             new (self) DurableGenerator(sockets, first, std::move(copied), acknowledges);
           }, nb::arg("sockets"), nb::arg("first"), nb::arg("frames"), nb::arg("acknowledges") = true)
      .def("flood", [](DurableGenerator& self, double seconds, uint64_t most, uint64_t in_flight, uint64_t parties,
                       double patience) {
             DurableOutcome outcome;
             {
               nb::gil_scoped_release release;
               outcome = self.flood(seconds, most, in_flight, parties, patience);
             }
             return told(std::move(outcome));
           }, nb::arg("seconds"), nb::arg("most"), nb::arg("in_flight"), nb::arg("parties"), nb::arg("patience"),
           nb::sig("def flood(self, seconds: float, most: int, in_flight: int, parties: int, patience: float) -> "
                   "tuple[int, int, int, float, float, float, float]"),
           "Publish with so many unaccepted at most: sent, accepted, received, seconds until all were accepted and until "
           "all had come, p50 and p99 of acceptances in microseconds.")
      .def("drain", [](DurableGenerator& self, uint64_t deliveries, double patience) {
             DurableOutcome outcome;
             {
               nb::gil_scoped_release release;
               outcome = self.drain(deliveries, patience);
             }
             return told(std::move(outcome));
           }, nb::arg("deliveries"), nb::arg("patience"),
           nb::sig("def drain(self, deliveries: int, patience: float) -> tuple[int, int, int, float, float, float, float]"),
           "Wait for so many deliveries, and acknowledge them.");

  module.def("copy_to_all", [](int publisher, const std::vector<int>& parties) {
    nb::gil_scoped_release release;
    copy_to_all(publisher, parties);
  }, nb::arg("publisher"), nb::arg("parties"), "Write what one socket sends to all others, until it ends.");
}

}  // namespace palio::load
