// The body of a notification: [1, {name: value, ...}] or [1, {name: value, ...}, content type, payload].
//
// One pass, no recursion: a body is flat. Names are strictly ascending byte strings, so they are unique too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "msgpack.hpp"

namespace palio {

constexpr int64_t body_version = 1;

struct BodyLimits {
  uint64_t attributes;
  uint64_t name_bytes;
  uint64_t value_bytes;
  uint64_t payload_bytes;
};

namespace detail {

inline void within(uint64_t size, const char* limit, uint64_t allowed, const char* what) {
  if (size > allowed) throw DecodeFailure(limit, allowed, what);
}

inline Token expect(Reader& reader, Kind kind, const char* what) {
  Token token = reader.next();
  if (token.kind != kind) throw DecodeFailure(std::string("expected ") + what);
  return token;
}

// Run a part of the reader; its failures are reported at this place.
template <class Part>
auto placed(const char* path, Part part) {
  try {
    return part();
  } catch (const DecodeFailure& failure) {
    throw failure.path().empty() ? failure.at(path) : failure;
  }
}

inline std::string attribute_path(std::string_view name) { return "attributes[" + std::string(name) + "]"; }

inline std::string_view read_name(Reader& reader, std::string_view previous, bool first, const BodyLimits& limits) {
  std::string_view name = expect(reader, Kind::string, "a string as an attribute's name").text;
  if (name.empty()) throw DecodeFailure("empty attribute name");
  within(name.size(), "name_bytes", limits.name_bytes, "bytes in a name");
  if (!first && name <= previous) {
    throw DecodeFailure(name == previous ? "attribute name given twice" : "attribute names not in ascending order")
        .at(attribute_path(name));
  }
  return name;
}

inline Token read_value(Reader& reader, std::string_view name, const BodyLimits& limits) {
  try {
    Token value = reader.next();
    if (value.kind == Kind::nil || value.kind == Kind::array || value.kind == Kind::map) {
      throw DecodeFailure("expected a string, number, boolean, time or bytes");
    }
    within(value.text.size(), "value_bytes", limits.value_bytes, "bytes in a value");
    return value;
  } catch (const DecodeFailure& failure) {
    throw failure.at(attribute_path(name));
  }
}

template <class Visitor>
void read_attributes(Reader& reader, const BodyLimits& limits, Visitor& visitor) {
  uint32_t count = expect(reader, Kind::map, "a map of attributes").count;
  within(count, "attributes", limits.attributes, "attributes in one notification");
  std::string_view previous;
  for (uint32_t i = 0; i < count; ++i) {
    std::string_view name = read_name(reader, previous, i == 0, limits);
    visitor.attribute(name, read_value(reader, name, limits));
    previous = name;
  }
}

template <class Visitor>
void read_payload(Reader& reader, const BodyLimits& limits, Visitor& visitor) {
  std::string_view content_type = expect(reader, Kind::string, "the payload's content type").text;
  if (content_type.empty()) throw DecodeFailure("empty content type");
  within(content_type.size(), "name_bytes", limits.name_bytes, "bytes in a content type");
  std::string_view payload = expect(reader, Kind::bytes, "the payload's bytes").text;
  within(payload.size(), "payload_bytes", limits.payload_bytes, "bytes in a payload");
  visitor.payload(content_type, payload);
}

}  // namespace detail

// Calls visitor.attribute(name, token) for each attribute in order, then visitor.payload(content type, data) if the
// body has a payload. Throws DecodeFailure at the first fault.
template <class Visitor>
void read_body(const uint8_t* data, size_t size, const BodyLimits& limits, Visitor& visitor) {
  Reader reader(data, size);
  uint32_t fields = detail::expect(reader, Kind::array, "an array").count;
  if (fields != 2 && fields != 4) throw DecodeFailure("expected an array of two or four fields");
  if (detail::expect(reader, Kind::integer, "the version").integer != body_version) {
    throw DecodeFailure("version that is not known here; this release reads version 1");
  }
  detail::placed("attributes", [&] { detail::read_attributes(reader, limits, visitor); });
  if (fields == 4) detail::placed("payload", [&] { detail::read_payload(reader, limits, visitor); });
  if (!reader.at_end()) throw DecodeFailure("bytes after the end of the document");
}

}  // namespace palio
