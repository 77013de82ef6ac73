// Counts the messages in what a broker sends, cut wherever the network has cut it.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace palio::load {

// The broker has said that it does not go on, or has said something that is not its protocol.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Protocol { palio, copy, mqtt, nats, amqp };

inline Protocol protocol_of(std::string_view name) {
  if (name == "palio") return Protocol::palio;
  if (name == "copy") return Protocol::copy;  // Palio's publications, as they were sent
  if (name == "mqtt") return Protocol::mqtt;
  if (name == "nats") return Protocol::nats;
  if (name == "amqp") return Protocol::amqp;
  throw std::invalid_argument("the protocols are palio, copy, mqtt, nats and amqp, not " + std::string(name));
}

// Bytes of a message that follow its payload.
inline size_t bytes_after_payload(Protocol protocol) {
  return protocol == Protocol::nats ? 2 : protocol == Protocol::amqp ? 1 : 0;
}

class Counter {
 public:
  static constexpr size_t most_rest = 1 << 16;  // bytes of a frame that is not whole yet

  explicit Counter(Protocol protocol) : protocol_(protocol) {}

  // Calls message(end of its payload) for each that is whole. There is room for most_rest bytes before `data`, in which
  // the beginning of a frame is put that came before.
  template <class Message>
  void feed(uint8_t* data, size_t size, Message&& message) {
    const uint8_t* place = data - rest_.size();
    std::memcpy(data - rest_.size(), rest_.data(), rest_.size());
    const uint8_t* end = data + size;
    while (place < end) {
      const size_t taken = frame(place, static_cast<size_t>(end - place), message);
      if (taken == 0) break;
      place += taken;
    }
    if (static_cast<size_t>(end - place) > most_rest) throw Failure("a frame of more than 64 KiB came");
    rest_.assign(place, end);
  }

  // Text of a broker as far as it can be shown.
  static std::string printable(const uint8_t* at, size_t size) {
    std::string text;
    for (size_t i = 0; i < size && text.size() < 200; ++i) {
      if (at[i] >= 0x20 && at[i] < 0x7f) text.push_back(static_cast<char>(at[i]));
    }
    return text;
  }

 private:
  static uint64_t big_endian(const uint8_t* at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | at[i];
    return value;
  }

  // Bytes of the frame that begins here; zero if it is not whole.
  template <class Message>
  size_t frame(const uint8_t* at, size_t size, Message& message) {
    switch (protocol_) {
      case Protocol::palio: return palio(at, size, deliver_kind, message);
      case Protocol::copy: return palio(at, size, publish_kind, message);
      case Protocol::mqtt: return mqtt(at, size, message);
      case Protocol::nats: return nats(at, size, message);
      default: return amqp(at, size, message);
    }
  }

  template <class Message>
  static size_t palio(const uint8_t* at, size_t size, uint8_t counted, Message& message) {
    if (size < 5) return 0;
    const size_t whole = 4 + big_endian(at, 4);
    if (whole < 5) throw Failure("an empty frame came");
    if (size < whole) return 0;
    if (at[4] == counted) message(at + whole);
    if (at[4] == goodbye_kind) throw Failure("goodbye: " + printable(at + 5, whole - 5));
    return whole;
  }

  template <class Message>
  static size_t mqtt(const uint8_t* at, size_t size, Message& message) {
    size_t length = 0, place = 1;
    for (;; ++place) {
      if (place == 5) throw Failure("a packet came whose length does not end");
      if (place >= size) return 0;
      length |= static_cast<size_t>(at[place] & 0x7f) << (7 * (place - 1));
      if (at[place] < 0x80) break;
    }
    const size_t whole = place + 1 + length;
    if (size < whole) return 0;
    if (at[0] >> 4 == mqtt_publish) message(at + whole);
    return whole;
  }

  template <class Message>
  static size_t nats(const uint8_t* at, size_t size, Message& message) {
    const void* found = std::memchr(at, '\n', size);
    if (found == nullptr) return 0;
    const size_t line = static_cast<size_t>(static_cast<const uint8_t*>(found) - at) + 1;
    const std::string_view text(reinterpret_cast<const char*>(at), line);
    if (text.substr(0, 4) == "-ERR") throw Failure("error: " + printable(at + 4, line - 4));
    if (text.substr(0, 4) != "MSG ") return line;
    size_t length = 0;
    const size_t blank = text.rfind(' ');
    for (size_t i = blank + 1; i < line && text[i] >= '0' && text[i] <= '9' && length < most_rest; ++i) {
      length = length * 10 + static_cast<size_t>(text[i] - '0');
    }
    const size_t whole = line + length + 2;
    if (size < whole) return 0;
    message(at + line + length);
    return whole;
  }

  // A message is a method, a header that says how long its content is, and frames of content.
  template <class Message>
  size_t amqp(const uint8_t* at, size_t size, Message& message) {
    if (size < 7) return 0;
    const size_t length = big_endian(at + 3, 4), whole = 7 + length + 1;
    if (size < whole) return 0;
    if (at[whole - 1] != 0xce) throw Failure("a frame came that does not end as it should");
    const uint8_t* content = at + 7;
    if (at[0] == 1 && length >= 4) {
      const uint64_t method = big_endian(content, 4);
      is_delivery_ = method == basic_deliver;
      if (method == connection_close || method == channel_close) {
        throw Failure("closed: " + printable(content + 4, length - 4));
      }
    } else if (at[0] == 2 && is_delivery_ && length >= 12) {
      content_left_ = big_endian(content + 4, 8);
      if (content_left_ == 0) message(at + whole - 1);
    } else if (at[0] == 3 && is_delivery_) {
      if (length > content_left_) throw Failure("more content came than its header says");
      content_left_ -= length;
      if (content_left_ == 0) message(at + whole - 1);
    }
    return whole;
  }


  static constexpr uint8_t deliver_kind = 0x20, publish_kind = 0x10, goodbye_kind = 0x03, mqtt_publish = 3;
  static constexpr uint64_t basic_deliver = 60 << 16 | 60, connection_close = 10 << 16 | 50, channel_close = 20 << 16 | 40;

  Protocol protocol_;
  std::string rest_;
  bool is_delivery_ = false;  // whether the content that comes is a delivery's
  uint64_t content_left_ = 0;
};

}  // namespace palio::load
