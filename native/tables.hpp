// Deliveries as tables: the frames of a log become columns, one for each attribute.
//
// A column has one type, and two columns of a table do not have names that differ in case alone, because not every
// reader tells them apart; only if one notification has such names they are in one table, with others of the kind. A
// notification goes into the first table in which it has a place; so an attribute that is now an integer and now a
// string makes two tables, and no value changes its type. Tables are few and have a bound of
// columns: when there is no place, or too much memory is used, the largest one has to be taken first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "body.hpp"
#include "column_builder.hpp"

namespace palio {

// What an access point has written on a notification. Fields that are not there have the kind nil.
struct EnvelopeTokens {
  Token origin, incarnation, sequence, published, publisher, expires, key;
  Token trace{Kind::nil};
};

inline EnvelopeTokens read_envelope(const uint8_t* data, size_t size) {
  using detail::expect;
  Reader reader(data, size);
  uint32_t fields = expect(reader, Kind::array, "an array").count;
  if (fields != 8 && fields != 9) throw DecodeFailure("expected an array of eight or nine fields");
  if (expect(reader, Kind::integer, "the version").integer != body_version) {
    throw DecodeFailure("version that is not known here; this release reads version 1");
  }
  auto optional = [&](Kind kind, const char* what) {
    Token token = reader.next();
    if (token.kind != Kind::nil && token.kind != kind) throw DecodeFailure(std::string("expected ") + what);
    return token;
  };
  EnvelopeTokens envelope;
  envelope.origin = expect(reader, Kind::string, "the origin");
  envelope.incarnation = expect(reader, Kind::integer, "the incarnation");
  envelope.sequence = expect(reader, Kind::integer, "the sequence number");
  envelope.published = expect(reader, Kind::time, "the time of publication");
  envelope.publisher = expect(reader, Kind::string, "the publisher");
  envelope.expires = optional(Kind::time, "the time of expiry");
  envelope.key = optional(Kind::string, "the key");
  if (fields == 9) envelope.trace = expect(reader, Kind::string, "the trace");
  if (!reader.at_end()) throw DecodeFailure("bytes after the end of the document");
  if (envelope.incarnation.integer < 0 || envelope.sequence.integer < 0) throw DecodeFailure("negative number in an id");
  return envelope;
}

// One notification as it was read; texts point into the frame.
struct ReadRow {
  struct Attribute {
    std::string_view name;
    Token value;
  };
  std::vector<Attribute> attributes;
  Token content_type{Kind::nil}, payload_bytes{Kind::nil};
  EnvelopeTokens envelope;
  size_t text_bytes = 0;

  void clear() {
    attributes.clear();
    content_type = payload_bytes = Token{Kind::nil};
    text_bytes = 0;
  }
  void attribute(std::string_view name, const Token& value) {
    attributes.push_back({name, value});
    text_bytes += value.text.size();
  }
  void payload(std::string_view type, std::string_view bytes) {
    content_type = Token{Kind::string, 0, 0, type};
    payload_bytes = Token{Kind::bytes, 0, 0, bytes};
    text_bytes += type.size() + bytes.size();
  }
};

// A table: columns of attributes, and those of the envelope and of the payload beside them.
class EventTable {
 public:
  struct Named {
    std::string name;
    ColumnBuilder column;
  };
  static constexpr const char* envelope_names[] = {"position", "origin",    "incarnation", "sequence", "published",
                                                   "publisher", "expires", "key",         "trace"};
  static constexpr const char* payload_names[] = {"data", "content_type"};

  explicit EventTable(bool has_case) : tells_case(has_case) {
    for (Kind kind : {Kind::integer, Kind::string, Kind::integer, Kind::integer, Kind::time, Kind::string, Kind::time,
                      Kind::string, Kind::string}) {
      envelope.emplace_back(kind);
    }
    payload.emplace_back(Kind::bytes);
    payload.emplace_back(Kind::string);
  }

  bool tells_case;
  int64_t rows = 0;
  std::vector<Named> attributes;
  std::vector<ColumnBuilder> envelope, payload;

  // Bytes in memory when all columns are as long as the table.
  size_t bytes() const { return static_cast<size_t>(rows) * (attributes.size() + fixed_words) * 8 + text_bytes_; }

  // The column of an attribute, or -1 if it has none yet, or -2 if it cannot have one here.
  int64_t column_of(std::string_view name, Kind kind, const std::string& folded) const {
    auto found = by_folded_.find(folded);
    if (found == by_folded_.end()) return -1;
    const Named& named = attributes[found->second];
    return named.name == name && named.column.kind() == kind ? static_cast<int64_t>(found->second) : -2;
  }

  size_t add_column(std::string_view name, Kind kind, const std::string& folded) {
    attributes.push_back({std::string(name), ColumnBuilder(kind)});
    by_folded_.emplace(folded, attributes.size() - 1);
    return attributes.size() - 1;
  }

  bool has_room_for(const ReadRow& row) const {
    const EnvelopeTokens& from = row.envelope;
    size_t beside = from.origin.text.size() + from.publisher.text.size() + from.key.text.size() + from.trace.text.size();
    return text_bytes_ + row.text_bytes + beside <= static_cast<size_t>(std::numeric_limits<int32_t>::max());
  }

  void append(const ReadRow& row, const std::vector<size_t>& columns, int64_t position) {
    for (size_t i = 0; i < columns.size(); ++i) attributes[columns[i]].column.append(rows, row.attributes[i].value);
    const EnvelopeTokens& from = row.envelope;
    const Token place{Kind::integer, position};
    const Token* fields[] = {&place,          &from.origin,  &from.incarnation, &from.sequence, &from.published,
                             &from.publisher, &from.expires, &from.key,         &from.trace};
    for (size_t i = 0; i < envelope.size(); ++i) {
      if (fields[i]->kind != Kind::nil) envelope[i].append(rows, *fields[i]);
      text_bytes_ += fields[i]->text.size();
    }
    if (row.payload_bytes.kind != Kind::nil) {
      payload[0].append(rows, row.payload_bytes);
      payload[1].append(rows, row.content_type);
    }
    text_bytes_ += row.text_bytes;
    ++rows;
  }

  // No rows come any more: all columns get the same length, and attributes the order of their names.
  void finish() {
    for (Named& named : attributes) named.column.pad(rows);
    for (ColumnBuilder& column : envelope) column.pad(rows);
    for (ColumnBuilder& column : payload) column.pad(rows);
    std::sort(attributes.begin(), attributes.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  }

 private:
  static constexpr size_t fixed_words = 11;
  size_t text_bytes_ = 0;
  std::unordered_map<std::string, size_t> by_folded_;
};

struct TableLimits {
  size_t tables;   // that grow at the same time
  size_t columns;  // of attributes in one; a notification that has more of them gets a table all the same
  size_t bytes;    // of all tables together
};

// What could not be read, and where in the frames it begins.
struct BadFrame {
  size_t offset;
  std::string problem;
};

class EventTables {
 public:
  using Fold = std::function<std::string(std::string_view)>;

  EventTables(std::string origin, Fold fold, TableLimits limits)
      : origin_(std::move(origin)), fold_(std::move(fold)), limits_(limits) {}

  // The id of the last notification that was taken; what is not above it was there before.
  int64_t incarnation = -1, sequence = -1;
  size_t rows = 0;      // that wait in the tables
  size_t taken = 0;     // notifications that came into a table
  size_t foreign = 0;   // those of other origins
  size_t repeated = 0;  // those that were there before
  std::vector<BadFrame> bad;

  size_t bytes() const {
    size_t sum = 0;
    for (const auto& table : tables_) sum += table->bytes();
    return sum;
  }

  // Takes frames from this offset on; how far it came. If that is not the end, the largest table must be taken first.
  size_t add(const uint8_t* data, size_t size, size_t offset, int64_t position) {
    while (offset < size) {
      if (size - offset < frame_head || frame_size(data + offset) > size - offset ||
          frame_size(data + offset) < frame_head) {
        bad.push_back({offset, "a frame that is not whole"});
        return size;
      }
      size_t end = offset + frame_size(data + offset);
      if (data[offset + 4] == deliver_kind && !one(data + offset + frame_head, data + end, offset, position)) return offset;
      offset = end;
    }
    return offset;
  }

  // The largest table, if there is one.
  std::shared_ptr<EventTable> take() {
    if (tables_.empty()) return nullptr;
    auto largest = std::max_element(tables_.begin(), tables_.end(),
                                    [](const auto& a, const auto& b) { return a->bytes() < b->bytes(); });
    std::shared_ptr<EventTable> table = std::move(*largest);
    tables_.erase(largest);
    shapes_.clear();  // they know tables by number
    rows -= static_cast<size_t>(table->rows);
    table->finish();
    return table;
  }

 private:
  static constexpr size_t frame_head = 5;
  static constexpr uint8_t deliver_kind = 0x20;
  static constexpr size_t most_remembered = 1 << 14;  // names, and shapes
  static constexpr size_t most_row_bytes = 1 << 30;   // so that there is room for any in a table of its own

  struct Shape {
    size_t table;
    std::vector<size_t> columns;
  };

  static size_t frame_size(const uint8_t* at) {
    return 4 + (size_t{at[0]} << 24 | size_t{at[1]} << 16 | size_t{at[2]} << 8 | at[3]);
  }

  // False if a table must be taken before this notification can be.
  bool one(const uint8_t* content, const uint8_t* end, size_t offset, int64_t position) {
    try {
      if (!read(content, end)) return true;
    } catch (const DecodeFailure& failure) {
      bad.push_back({offset, failure.path().empty() ? failure.problem() : failure.path() + ": " + failure.problem()});
      return true;
    }
    if (rows > 0 && bytes() >= limits_.bytes) return false;
    const Shape* shape = place();
    if (shape == nullptr) return false;
    EventTable& table = *tables_[shape->table];
    if (!table.has_room_for(row_)) return false;
    table.append(row_, shape->columns, position);
    incarnation = row_.envelope.incarnation.integer;
    sequence = row_.envelope.sequence.integer;
    ++rows;
    ++taken;
    return true;
  }

  // Whether it is one that is wanted.
  bool read(const uint8_t* content, const uint8_t* end) {
    size_t size = static_cast<size_t>(end - content);
    size_t length = size < 2 ? 0 : size_t{content[0]} << 8 | content[1];
    if (size < 2 || length > size - 2) throw DecodeFailure("a delivery that ends in its envelope");
    row_.clear();
    row_.envelope = detail::placed("envelope", [&] { return read_envelope(content + 2, length); });
    if (row_.envelope.origin.text != origin_) {
      ++foreign;
      return false;
    }
    if (std::pair(row_.envelope.incarnation.integer, row_.envelope.sequence.integer) <= std::pair(incarnation, sequence)) {
      ++repeated;
      return false;
    }
    constexpr uint64_t any = ~uint64_t{0};  // limits were checked when it was published
    if (size > most_row_bytes) throw DecodeFailure("a notification of more than a gigabyte");
    read_body(content + 2 + length, size - 2 - length, {any, any, any, any}, row_);
    return true;
  }

  // The table for such a notification and its columns there; null if no table has a place for it.
  const Shape* place() {
    key_.clear();
    for (const ReadRow::Attribute& attribute : row_.attributes) {
      uint32_t length = static_cast<uint32_t>(attribute.name.size());
      key_.append(reinterpret_cast<const char*>(&length), sizeof(length));
      key_.append(attribute.name);
      key_.push_back(static_cast<char>(attribute.value.kind));
    }
    auto known = shapes_.find(key_);
    if (known != shapes_.end()) return &known->second;
    bool tells_case = fold_names();
    size_t table = fitting(tells_case);
    if (table == tables_.size()) {
      if (tables_.size() == limits_.tables) return nullptr;
      tables_.push_back(std::make_shared<EventTable>(tells_case));
    }
    if (shapes_.size() >= most_remembered) shapes_.clear();
    return &shapes_.emplace(key_, Shape{table, columns_in(*tables_[table])}).first->second;
  }

  // By what its names are told apart: whether by their case, too.
  bool fold_names() {
    if (names_.size() >= most_remembered) names_.clear();
    folded_.clear();
    std::unordered_set<std::string_view> different;
    for (const ReadRow::Attribute& attribute : row_.attributes) {
      auto known = names_.find(std::string(attribute.name));
      if (known == names_.end()) known = names_.emplace(attribute.name, fold_(attribute.name)).first;
      folded_.push_back(known->second);
    }
    for (const std::string& name : folded_) different.insert(name);
    if (different.size() == folded_.size()) return false;
    folded_.clear();
    for (const ReadRow::Attribute& attribute : row_.attributes) folded_.emplace_back(attribute.name);
    return true;
  }

  // The number of the first table with a place for what was read.
  size_t fitting(bool tells_case) const {
    for (size_t i = 0; i < tables_.size(); ++i) {
      const EventTable& table = *tables_[i];
      if (table.tells_case != tells_case) continue;
      size_t missing = 0;
      bool fits = true;
      for (size_t a = 0; fits && a < folded_.size(); ++a) {
        const ReadRow::Attribute& attribute = row_.attributes[a];
        int64_t column = table.column_of(attribute.name, attribute.value.kind, folded_[a]);
        missing += column == -1;
        fits = column != -2;
      }
      if (fits && (missing == 0 || table.attributes.size() + missing <= limits_.columns)) return i;
    }
    return tables_.size();
  }

  std::vector<size_t> columns_in(EventTable& table) const {
    std::vector<size_t> columns;
    for (size_t a = 0; a < folded_.size(); ++a) {
      const ReadRow::Attribute& attribute = row_.attributes[a];
      int64_t column = table.column_of(attribute.name, attribute.value.kind, folded_[a]);
      columns.push_back(column >= 0 ? static_cast<size_t>(column)
                                    : table.add_column(attribute.name, attribute.value.kind, folded_[a]));
    }
    return columns;
  }

  std::string origin_;
  Fold fold_;
  TableLimits limits_;
  std::vector<std::shared_ptr<EventTable>> tables_;
  std::unordered_map<std::string, Shape> shapes_;
  std::unordered_map<std::string, std::string> names_;  // as they are compared where case does not count
  ReadRow row_;
  std::vector<std::string> folded_;
  std::string key_;
};

}  // namespace palio
