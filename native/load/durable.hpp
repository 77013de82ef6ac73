// Load for a server with a store: publications that are acknowledged one by one, and durable parties that acknowledge
// what they get; all in one thread and without Python.
#pragma once

#include "generator.hpp"

namespace palio::load {

struct DurableOutcome {
  uint64_t sent = 0, accepted = 0, received = 0;
  double seconds = 0;         // from the first publication to the last acceptance
  double all_seconds = 0;     // to the last delivery
  std::vector<int64_t> latencies;  // of acceptances, in nanoseconds
};

class DurableGenerator {
 public:
  // The first descriptor publishes; parties read their logs from these numbers on. Frames of publications are sent again
  // and again, with numbers of their own. Descriptors stay the caller's.
  DurableGenerator(const std::vector<int>& sockets, const std::vector<uint64_t>& first, std::vector<std::string> frames,
                   bool acknowledges)
      : sockets_(sockets), next_(first), frames_(std::move(frames)), rests_(sockets.size()), acknowledges_(acknowledges) {
    if (sockets_.empty() || next_.size() != sockets_.size() || frames_.empty()) {
      throw std::invalid_argument("one socket publishes, each has a number, and there is something to publish");
    }
    for (const std::string& frame : frames_) {
      if (frame.size() < number_end) throw std::invalid_argument("a publication without a number");
    }
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    if (poll_ < 0) fail("epoll_create1");
    for (size_t i = 0; i < sockets_.size(); ++i) watch(EPOLL_CTL_ADD, i, EPOLLIN);
    buffer_.resize(read_bytes);
    said_.assign(sockets_.size(), 0);
    got_ = next_;
  }
  DurableGenerator(const DurableGenerator&) = delete;
  DurableGenerator& operator=(const DurableGenerator&) = delete;
  ~DurableGenerator() { close(poll_); }

  // Publishes for some seconds, or so many, with so many at most that are not accepted; and waits for all deliveries.
  DurableOutcome flood(double seconds, uint64_t most, uint64_t in_flight, uint64_t parties, double patience) {
    began_ = last_progress_ = last_accepted_ = now_ns();
    accepted_before_ = accepted_;
    sent_before_ = sent_;
    received_ = 0;
    times_.assign(in_flight, 0);
    latencies_.clear();
    const int64_t end = began_ + static_cast<int64_t>(seconds * 1e9), wait = static_cast<int64_t>(patience * 1e9);
    while (true) {
      const int64_t now = now_ns();
      const bool is_over = now >= end || sent_ - sent_before_ >= most;
      if (!is_over) fill(in_flight, most);
      write();
      if (is_over && out_.empty() && accepted_ == sent_ && received_ >= (sent_ - sent_before_) * parties) {
        say_all();
        break;
      }
      if (now - last_progress_ > wait) break;
      const bool may_fill = !is_over && sent_ - accepted_ < in_flight && out_.size() < write_bytes;
      receive(may_fill && !is_full_ ? 0 : 10'000'000);
    }
    return outcome();
  }

  // Waits for so many deliveries.
  DurableOutcome drain(uint64_t deliveries, double patience) {
    began_ = last_progress_ = now_ns();
    accepted_before_ = accepted_;
    sent_before_ = sent_;
    received_ = 0;
    latencies_.clear();
    while (received_ < deliveries && now_ns() - last_progress_ < static_cast<int64_t>(patience * 1e9)) receive(10'000'000);
    say_all();
    return outcome();
  }

 private:
  static constexpr size_t read_bytes = 1 << 20, write_bytes = 1 << 17;
  static constexpr int64_t pause_ns = 10'000'000;  // between two acknowledgements of a party
  static constexpr size_t number_begin = 5, number_end = 9, head_bytes = 5;
  static constexpr uint8_t goodbye = 0x03, accepted_kind = 0x11, answer = 0x13, acknowledge = 0x15, deliver = 0x20,
                           sequence = 0x21, position = 0x23;

  DurableOutcome outcome() {
    DurableOutcome made;
    made.sent = sent_ - sent_before_;
    made.accepted = accepted_ - accepted_before_;
    made.received = received_;
    made.seconds = static_cast<double>(last_accepted_ - began_) / 1e9;
    made.all_seconds = static_cast<double>(last_progress_ - began_) / 1e9;
    made.latencies = std::move(latencies_);
    return made;
  }

  static uint64_t big_endian(const uint8_t* at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | at[i];
    return value;
  }

  void fill(uint64_t in_flight, uint64_t most) {
    const int64_t now = now_ns();
    while (sent_ - accepted_ < in_flight && out_.size() < write_bytes && sent_ - sent_before_ < most) {
      const std::string& frame = frames_[sent_ % frames_.size()];
      const size_t at = out_.size();
      out_.append(frame);
      ++sent_;
      for (size_t i = number_begin; i < number_end; ++i) out_[at + i] = static_cast<char>(sent_ >> (8 * (number_end - 1 - i)));
      times_[sent_ % times_.size()] = now;
    }
  }

  void write() {
    if (out_.empty() || is_full_) return;
    const ssize_t written = ::send(sockets_[0], out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0) {
      if (errno != EAGAIN && errno != EINTR) throw Failure("the server has closed the connection that publishes");
      set_full(true);
      return;
    }
    out_.erase(0, static_cast<size_t>(written));
    set_full(!out_.empty());
  }

  void set_full(bool is_full) {
    if (is_full == is_full_) return;
    is_full_ = is_full;
    watch(EPOLL_CTL_MOD, 0, is_full ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  void watch(int operation, size_t number, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    if (epoll_ctl(poll_, operation, sockets_[number], &event) != 0) fail("epoll_ctl");
  }

  void receive(int64_t wait) {
    epoll_event events[256];
    const timespec time{static_cast<time_t>(wait / 1'000'000'000), static_cast<long>(wait % 1'000'000'000)};
    const int count = epoll_pwait2(poll_, events, 256, &time, nullptr);
    if (count < 0 && errno != EINTR) fail("epoll_pwait2");
    if (count == 0) say_all();  // the server may wait for it
    for (int i = 0; i < count; ++i) {
      if (events[i].events & EPOLLOUT) set_full(false);
      if (events[i].events & ~static_cast<uint32_t>(EPOLLOUT)) read_from(events[i].data.u64);
    }
  }

  void read_from(size_t number) {
    const ssize_t size = recv(sockets_[number], buffer_.data(), read_bytes, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) throw Failure("the server has closed a connection");
    std::string& rest = rests_[number];
    rest.append(reinterpret_cast<const char*>(buffer_.data()), static_cast<size_t>(size));
    const uint8_t* at = reinterpret_cast<const uint8_t*>(rest.data());
    size_t place = 0;
    const uint64_t before = next_[number];
    while (rest.size() - place >= head_bytes) {
      const size_t whole = 4 + big_endian(at + place, 4);
      if (rest.size() - place < whole) break;
      take(number, at[place + 4], at + place + head_bytes, whole - head_bytes);
      place += whole;
    }
    rest.erase(0, place);
    if (next_[number] != before) {
      received_ += next_[number] - before;
      last_progress_ = now_ns();
      if (acknowledges_ && last_progress_ - said_[number] >= pause_ns) say_got(number);
    }
  }

  void take(size_t number, uint8_t kind, const uint8_t* content, size_t size) {
    if (kind == deliver || kind == sequence) {
      ++next_[number];
    } else if (kind == accepted_kind && size >= 4) {
      note_accepted(big_endian(content, 4));
    } else if (kind == goodbye || kind == answer || kind == position) {
      throw Failure("the server does not go on: " + Counter::printable(content, size));
    }
  }

  void note_accepted(uint64_t last) {
    const int64_t now = now_ns();
    for (; (accepted_ & 0xFFFFFFFF) != last && accepted_ < sent_; ++accepted_) {
      latencies_.push_back(now - times_[(accepted_ + 1) % times_.size()]);
    }
    last_accepted_ = last_progress_ = now;
  }

  void say_all() {
    for (size_t i = 1; i < sockets_.size(); ++i) {
      if (acknowledges_ && next_[i] > got_[i]) say_got(i);
    }
  }

  // Whatever waits in the socket is little.
  void say_got(size_t number) {
    said_[number] = now_ns();
    got_[number] = next_[number];
    char frame[head_bytes + 8] = {0, 0, 0, 9, static_cast<char>(acknowledge)};
    const uint64_t last = next_[number] - 1;
    for (size_t i = 0; i < 8; ++i) frame[head_bytes + i] = static_cast<char>(last >> (8 * (7 - i)));
    if (::send(sockets_[number], frame, sizeof frame, MSG_NOSIGNAL) < 0) throw Failure("the server has closed a connection");
  }

  std::vector<int> sockets_;
  std::vector<uint64_t> next_;  // by socket: the number of the next delivery
  std::vector<std::string> frames_, rests_;
  bool acknowledges_;  // whether parties are durable
  std::vector<uint8_t> buffer_;
  std::string out_;
  std::vector<int64_t> times_, latencies_;
  std::vector<int64_t> said_;   // by socket: when something was acknowledged
  std::vector<uint64_t> got_;   // by socket: the number behind the last that was
  int poll_ = -1;
  bool is_full_ = false;
  uint64_t sent_ = 0, accepted_ = 0, received_ = 0, sent_before_ = 0, accepted_before_ = 0;
  int64_t began_ = 0, last_progress_ = 0, last_accepted_ = 0;
};

}  // namespace palio::load
