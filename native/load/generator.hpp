// Load: one connection publishes, others receive and are counted, all in one thread and without Python.
#pragma once

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <vector>

#include "counter.hpp"

namespace palio::load {

inline int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

[[noreturn]] inline void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

// Messages that are sent again and again: their bytes, where each ends, and how many deliveries each makes.
struct Traffic {
  std::string bytes;
  std::vector<size_t> ends;
  std::vector<uint64_t> deliveries;
};

struct Outcome {
  uint64_t sent = 0, expected = 0, received = 0;
  double seconds = 0;      // from the first message to the last delivery
  bool kept_up = true;     // pacing ends early when too many messages are on their way
  std::vector<int64_t> latencies;  // in nanoseconds, of paced messages
};

class Generator {
 public:
  // The first descriptor publishes. Descriptors stay the caller's.
  Generator(Protocol protocol, const std::vector<int>& sockets, Traffic traffic)
      : protocol_(protocol), sockets_(sockets), counters_(sockets.size(), Counter(protocol)), traffic_(std::move(traffic)) {
    check();
    buffer_.resize(Counter::most_rest + read_bytes);
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    if (poll_ < 0) fail("epoll_create1");
    for (size_t i = 0; i < sockets_.size(); ++i) watch(EPOLL_CTL_ADD, i, EPOLLIN);
  }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  ~Generator() { close(poll_); }

  // Sends as fast as at most so many messages in flight allow. They begin with few and double as long as all of them
  // arrive within a tenth of a second, so that a slow broker need not be waited for at the end.
  Outcome flood(double seconds, uint64_t most_in_flight, double patience) {
    begin();
    uint64_t window = std::min<uint64_t>(first_window, most_in_flight), mark = 0;
    int64_t marked = began_;
    const int64_t end = began_ + static_cast<int64_t>(seconds * 1e9);
    bool is_ending = false;
    while (true) {
      const int64_t now = now_ns();
      if (now >= end && !is_ending) {
        is_ending = true;
        allowed_ = messages_begun();
      }
      if (!is_ending) allow(window);
      send();
      if (is_ending && is_whole() && received_ >= expected(sent_)) break;
      if (now - last_progress_ > static_cast<int64_t>(patience * 1e9)) break;
      if (received_ >= mark && window < most_in_flight) {
        if (now - marked < 100'000'000) window = std::min(most_in_flight, 2 * window);
        mark = expected(messages_begun());
        marked = now;
      }
      receive(may_send() ? 0 : 10'000'000, nullptr);
    }
    return outcome();
  }

  // Sends one message at a time, at equal distances; each carries the time at which it was sent.
  Outcome pace(double per_second, double seconds, uint64_t most_behind, double patience) {
    prctl(PR_SET_TIMERSLACK, 1UL);  // to wake up when it is time
    begin();
    Outcome made;
    const uint64_t total = static_cast<uint64_t>(per_second * seconds);
    const double distance = 1e9 / per_second;
    for (uint64_t i = 0; i < total;) {
      const int64_t due = began_ + static_cast<int64_t>(distance * static_cast<double>(i)), now = now_ns();
      if (now < due) {
        receive(due - now, &made.latencies);
        continue;
      }
      stamp();
      allowed_ = sent_ + 1;
      const int64_t until = now + static_cast<int64_t>(patience * 1e9);
      for (send(); !is_whole() || sent_ < allowed_; send()) {  // the broker does not read: then it has not kept up
        receive(1'000'000, &made.latencies);
        if (now_ns() > until) break;
      }
      ++i;
      if (sent_ < allowed_ || behind() > most_behind) {
        made.kept_up = false;
        break;
      }
    }
    wait_for_all(patience, &made.latencies);
    Outcome all = outcome();
    all.kept_up = made.kept_up;
    all.latencies = std::move(made.latencies);
    return all;
  }

 private:
  static constexpr size_t read_bytes = 1 << 20, write_bytes = 1 << 18;
  static constexpr uint64_t first_window = 64;
  static constexpr size_t stamp_bytes = 8;

  void check() const {
    if (sockets_.empty()) throw std::invalid_argument("nobody publishes");
    if (traffic_.ends.empty() || traffic_.ends.size() != traffic_.deliveries.size() ||
        traffic_.ends.back() != traffic_.bytes.size() || traffic_.deliveries.back() == 0) {
      throw std::invalid_argument("messages need ends and deliveries, the last one a delivery at least");
    }
    size_t before = 0;
    for (size_t end : traffic_.ends) {
      if (end < before + stamp_bytes + bytes_after_payload(protocol_)) throw std::invalid_argument("a message without room for a time");
      before = end;
    }
  }

  void begin() {
    totals_.assign(1, 0);
    for (uint64_t deliveries : traffic_.deliveries) totals_.push_back(totals_.back() + deliveries);
    sent_ = allowed_ = received_ = 0;
    place_ = 0;
    began_ = last_progress_ = now_ns();
  }

  Outcome outcome() const {
    Outcome made;
    made.sent = sent_;
    made.expected = expected(sent_);
    made.received = received_;
    made.seconds = static_cast<double>(last_progress_ - began_) / 1e9;
    return made;
  }

  // Deliveries that the first so many messages make.
  uint64_t expected(uint64_t messages) const {
    const size_t block = traffic_.ends.size();
    return messages / block * totals_.back() + totals_[messages % block];
  }

  // Messages whose deliveries are still on their way, about.
  uint64_t behind() const {
    return (expected(sent_) - std::min(received_, expected(sent_))) * traffic_.ends.size() / totals_.back();
  }

  size_t begin_of(uint64_t message) const {
    const size_t at = message % traffic_.ends.size();
    return at == 0 ? 0 : traffic_.ends[at - 1];
  }

  bool is_whole() const { return place_ == begin_of(sent_); }
  uint64_t messages_begun() const { return sent_ + !is_whole(); }
  bool may_send() const { return !is_full_ && (sent_ < allowed_); }

  void allow(uint64_t window) {
    const uint64_t most = received_ + std::max<uint64_t>(1, window * totals_.back() / traffic_.ends.size());
    const uint64_t far = sent_ + traffic_.ends.size();  // no further than a write goes
    allowed_ = std::max(allowed_, messages_begun());
    while (allowed_ < far && expected(allowed_) < most) ++allowed_;
  }

  // Writes what is allowed, as far as the socket takes it, and at most to the end of the block.
  void send() {
    if (sent_ >= allowed_) return;
    const size_t block = traffic_.ends.size();
    const uint64_t last = std::min(allowed_, sent_ - sent_ % block + block);  // messages before it
    const size_t size = std::min(traffic_.ends[(last - 1) % block] - place_, write_bytes);
    const ssize_t written = ::send(sockets_[0], traffic_.bytes.data() + place_, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0) {
      if (errno != EAGAIN && errno != EINTR) throw Failure("the broker has closed the connection that publishes");
      set_full(true);
      return;
    }
    set_full(static_cast<size_t>(written) < size);
    place_ += static_cast<size_t>(written);
    while (sent_ < last && traffic_.ends[sent_ % block] <= place_) ++sent_;
    if (place_ == traffic_.bytes.size()) place_ = 0;
  }

  void set_full(bool is_full) {
    if (is_full == is_full_) return;
    is_full_ = is_full;
    watch(EPOLL_CTL_MOD, 0, is_full ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  void stamp() {
    const int64_t now = now_ns();
    const size_t end = traffic_.ends[sent_ % traffic_.ends.size()] - bytes_after_payload(protocol_);
    std::memcpy(&traffic_.bytes[end - stamp_bytes], &now, stamp_bytes);
  }

  void wait_for_all(double patience, std::vector<int64_t>* latencies) {
    const int64_t wait = static_cast<int64_t>(patience * 1e9);
    while (received_ < expected(sent_) && now_ns() - last_progress_ < wait) receive(10'000'000, latencies);
  }

  void watch(int operation, size_t number, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    if (epoll_ctl(poll_, operation, sockets_[number], &event) != 0) fail("epoll_ctl");
  }

  // Waits for so many nanoseconds at most until something can be read, or the publisher be written to.
  void receive(int64_t wait, std::vector<int64_t>* latencies) {
    epoll_event events[256];
    const timespec time{static_cast<time_t>(wait / 1'000'000'000), static_cast<long>(wait % 1'000'000'000)};
    const int count = epoll_pwait2(poll_, events, 256, &time, nullptr);
    if (count < 0 && errno != EINTR) fail("epoll_pwait2");
    for (int i = 0; i < count; ++i) {
      if (events[i].events & EPOLLOUT) set_full(false);
      if (events[i].events & ~static_cast<uint32_t>(EPOLLOUT)) read_from(events[i].data.u64, latencies);
    }
  }

  void read_from(size_t number, std::vector<int64_t>* latencies) {
    uint8_t* data = buffer_.data() + Counter::most_rest;
    const ssize_t size = recv(sockets_[number], data, read_bytes, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) throw Failure("the broker has closed a connection");
    const uint64_t before = received_;
    if (latencies == nullptr) {
      counters_[number].feed(data, static_cast<size_t>(size), [&](const uint8_t*) { ++received_; });
    } else {
      const int64_t now = now_ns();
      counters_[number].feed(data, static_cast<size_t>(size), [&](const uint8_t* end) {
        int64_t sent;
        std::memcpy(&sent, end - stamp_bytes, stamp_bytes);
        latencies->push_back(now - sent);
        ++received_;
      });
    }
    if (received_ != before) last_progress_ = now_ns();
  }

  Protocol protocol_;
  std::vector<int> sockets_;
  std::vector<Counter> counters_;
  Traffic traffic_;
  std::vector<uint64_t> totals_;  // deliveries of the messages before each
  std::vector<uint8_t> buffer_;
  int poll_ = -1;
  bool is_full_ = false;     // whether the socket that publishes takes nothing
  uint64_t sent_ = 0;        // messages, whole
  uint64_t allowed_ = 0;     // messages that may be sent
  uint64_t received_ = 0;    // deliveries
  size_t place_ = 0;         // in the block, of the next byte to be sent
  int64_t began_ = 0, last_progress_ = 0;
};

// The least that a broker can do: what one connection sends is written to all others as it is.
inline void copy_to_all(int publisher, const std::vector<int>& parties) {
  std::vector<uint8_t> buffer(1 << 18);
  while (true) {
    const ssize_t size = recv(publisher, buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    for (int party : parties) {
      for (ssize_t done = 0; done < size;) {
        const ssize_t written = ::send(party, buffer.data() + done, static_cast<size_t>(size - done), MSG_NOSIGNAL);
        if (written < 0 && errno != EINTR) return;  // nobody is there any more
        done += std::max<ssize_t>(written, 0);
      }
    }
  }
}

}  // namespace palio::load
