// A record batch, read through the Arrow C data interface: one notification a row, one attribute a column.
//
// Structure and types are checked when the batch is taken, values when they are read. An attribute is absent where the
// column is null, where the dictionary's entry is, or where the whole row is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "arrow_abi.hpp"
#include "arrow_columns.hpp"
#include "arrow_format.hpp"
#include "failure.hpp"

namespace palio {

struct ColumnLimits {
  uint64_t attributes;
  uint64_t name_bytes;
  uint64_t value_bytes;
  uint64_t prepared = ~uint64_t{0};  // entries of a dictionary that are read in advance; of a larger one those in use are
};

// How the columns of a batch are read.
struct ColumnReading {
  ColumnLimits limits;
  bool rounds_decimals = false;  // or decimals that are too long for a float of their own cannot be read
};

namespace detail {

constexpr int64_t most_elements = int64_t{1} << 56;  // so that places in buffers are computed without overflow

inline ColumnFailure damage(const std::string& problem) {
  return {ColumnFailure::Code::batch,
          problem + "; the batch is damaged: check it where it is made (in pyarrow: batch.validate(full=True))"};
}

[[noreturn]] inline void damaged(const std::string& problem) { throw damage(problem); }

// What schema and array must agree on, at every level.
inline void check_node(const ArrowSchema& schema, const ArrowArray& array) {
  if (schema.release == nullptr || array.release == nullptr) damaged("schema or array that was released already");
  if (schema.format == nullptr) damaged("schema without a format");
  if (array.length < 0 || array.offset < 0) damaged("negative length or offset");
  if (array.length > most_elements || array.offset > most_elements - array.length) {
    damaged("length or offset beyond any memory");
  }
  if (array.null_count < -1 || array.null_count > array.length) damaged("number of nulls that cannot be");
  if (schema.n_children != array.n_children || schema.n_children < 0) damaged("schema and array differ in children");
  if (schema.n_children > 0 && (schema.children == nullptr || array.children == nullptr)) damaged("missing children");
  if ((schema.dictionary == nullptr) != (array.dictionary == nullptr)) damaged("schema and array differ in dictionary");
}

inline void check_buffers(const ArrowArray& array, int64_t count, bool at_least) {
  if (at_least ? array.n_buffers < count : array.n_buffers != count) {
    damaged("array of " + std::to_string(array.n_buffers) + " buffers where the type has " + std::to_string(count));
  }
  if (count > 0 && array.buffers == nullptr) damaged("missing buffers");
}

inline const uint8_t* buffer(const ArrowArray& array, int64_t number) {
  return static_cast<const uint8_t*>(array.buffers[number]);
}

// The bitmap of a checked array, or null if nothing is null.
inline const uint8_t* validity_of(const ArrowArray& array) {
  if (array.null_count == 0) return nullptr;
  if (buffer(array, 0) == nullptr && array.null_count > 0) damaged("nulls without a bitmap");
  return buffer(array, 0);
}

// Where the data of row 0 is, `first` elements into a buffer that has `needed` of them at least; null if it need not be
// there, because there are no elements or they take no room.
inline const uint8_t* data_at(const uint8_t* data, int64_t first, int64_t width, int64_t needed) {
  if (needed == 0 || width == 0) return nullptr;
  if (data == nullptr) damaged("missing buffer of values");
  int64_t end;
  if (__builtin_mul_overflow(needed, width, &end)) damaged("length or offset beyond any memory");
  return data + first * width;
}

// Offsets: one more than there are values; the last says how much text is known to be there.
inline void take_text(ArrowColumn& column, const ArrowArray& array, int64_t width) {
  column.text = buffer(array, 2);
  if (column.data == nullptr || column.text == nullptr) return;
  const uint8_t* offsets = buffer(array, 1);
  int64_t last = array.offset + array.length;
  int64_t size = width == 4 ? load<int32_t>(offsets, last) : load<int64_t>(offsets, last);
  if (size < 0) damaged("negative offset of text");
  column.text_size = static_cast<uint64_t>(size);
}

// Views: after the views come the buffers with the text, and last the sizes of those.
inline void take_views(ArrowColumn& column, const ArrowArray& array) {
  column.block_count = array.n_buffers - 3;
  column.blocks = const_cast<const void* const*>(array.buffers) + 2;
  column.block_sizes = buffer(array, array.n_buffers - 1);
  if (column.block_count > 0 && column.block_sizes == nullptr) damaged("buffers of text without their sizes");
}

// A column without regard to its dictionary; row 0 is `skip` elements into it, and `rows` follow.
inline ArrowColumn take_array(const ArrowSchema& schema, const ArrowArray& array, int64_t skip, int64_t rows,
                              const ColumnReading& reading, const Hasher& hasher) {
  check_node(schema, array);
  ColumnType type = column_type(schema.format);
  if (type.kind == ColumnKind::unsupported) {
    throw ColumnFailure(ColumnFailure::Code::type, unsupported(schema.format));
  }
  if (schema.n_children != 0) damaged("children of a plain type");
  if (array.length < skip || array.length - skip < rows) damaged("column shorter than the batch");
  check_buffers(array, buffers_of(type.kind), type.kind == ColumnKind::text_view);
  ArrowColumn column;
  column.kind = type.kind;
  column.type = type.type;
  column.hasher = &hasher;
  if (type.kind == ColumnKind::null) return column;
  column.validity = validity_of(array);
  column.first = array.offset + skip;
  // Bits are found through `first`; all else by the row alone.
  int64_t begin = type.kind == ColumnKind::boolean ? 0 : column.first;
  int64_t width = type.kind == ColumnKind::boolean ? 1 : type.width;
  column.data = data_at(buffer(array, 1), begin, width, array.length == 0 ? 0 : array.offset + array.length);
  column.longest = std::min<uint64_t>(reading.limits.value_bytes, text_size_mask);  // keys keep sizes in so many bits
  column.width = type.width;
  column.scale = type.scale;
  column.rounds = reading.rounds_decimals;
  if (type.kind == ColumnKind::text32 || type.kind == ColumnKind::text64) take_text(column, array, type.width);
  if (type.kind == ColumnKind::text_view) take_views(column, array);
  return column;
}

inline ColumnFailure failure_of(Found found, const ArrowColumn& column, uint64_t size) {
  auto value = [](const char* problem) { return ColumnFailure(ColumnFailure::Code::value, problem); };
  switch (found) {
    case Found::not_finite: return value("float that is NaN or infinite; make it null");
    case Found::large_integer:
      return value("integer outside the signed 64-bit range; cast the column to double or string");
    case Found::not_utf8: return value("string that is not valid UTF-8; mend it or make the column binary");
    case Found::fine_time:
      return value("time finer than a microsecond; round it (in pyarrow: cast the column to 'us', safe=False)");
    case Found::far_time: return value("time outside years 1 to 9999; make it null");
    case Found::large_decimal:
      return value("decimal outside the signed 64-bit range; cast the column to double or string");
    case Found::long_decimal:
      return value("decimal of more than 15 digits, or beyond 2**53; let round_decimals round it, or cast the column to string");
    case Found::long_text: return ColumnFailure("value_bytes", column.longest, size, "bytes in a value");
    case Found::outside_dictionary: return damage("index outside the dictionary");
    default: return damage("text that lies outside its buffer");
  }
}

}  // namespace detail

// Points into the arrays and to the hasher, which must outlive it; keeps nothing of the schema.
class ArrowBatch {
 public:
  ArrowBatch(const ArrowSchema& schema, const ArrowArray& array, const ColumnReading& reading, const Hasher& hasher)
      : rows_(array.length), hasher_(hasher) {
    using namespace detail;
    check_node(schema, array);
    if (std::string_view(schema.format) != "+s") {
      throw ColumnFailure(ColumnFailure::Code::batch, "an array of Arrow format " + quoted(schema.format) +
                                                          " is no record batch; pass a batch or an array of structs");
    }
    const ColumnLimits& limits = reading.limits;
    uint64_t count = static_cast<uint64_t>(schema.n_children);
    if (count > limits.attributes) throw ColumnFailure("attributes", limits.attributes, count, "columns in a batch");
    check_buffers(array, 1, false);
    validity_ = validity_of(array);
    first_ = array.offset;
    columns_.reserve(count);
    dictionaries_.resize(count);
    for (uint64_t c = 0; c < count; ++c) add(schema, array, c, reading);
    check_unique();
  }

  ArrowBatch(ArrowBatch&&) = default;
  ArrowBatch(const ArrowBatch&) = delete;  // columns point to the dictionaries that the batch has prepared

  size_t columns() const { return columns_.size(); }
  std::string_view name(size_t column) const { return names_[column]; }
  int64_t rows() const { return rows_; }

  // Reads a cell: its value with its key, or why there is none. Column and row must be within the batch. Texts live as
  // long as the array.
  Found find(size_t c, int64_t row, Value& value, Key& key) const {
    if (validity_ != nullptr && !detail::bit(validity_, first_ + row)) return Found::absent;
    const ArrowColumn& column = columns_[c];
    return column.kind == ColumnKind::dictionary ? detail::read_indexed(column, row, value, key)
                                                 : detail::read_cell(column, row, value, key);
  }

  // The same where a value is needed: false if the attribute is absent, a ColumnFailure if it cannot be read.
  bool get(size_t c, int64_t row, Value& value, Key& key) const {
    Found found = find(c, row, value, key);
    if (__builtin_expect(found > Found::present, 0)) throw failure(c, found, value).in(names_[c], row);
    return found == Found::present;
  }

  // Why a cell cannot be read, without its place.
  [[gnu::noinline, gnu::cold]] ColumnFailure failure(size_t c, Found found, const Value& value) const {
    return detail::failure_of(found, columns_[c], value.text.size());
  }

 private:
  struct Dictionary {
    std::vector<ArrowColumn> values;  // one, or none if the column is plain
    std::vector<DictionaryEntry> entries;
  };

  void add(const ArrowSchema& schema, const ArrowArray& array, uint64_t c, const ColumnReading& reading) {
    const ArrowSchema* child = schema.children[c];
    const ArrowArray* values = array.children[c];
    if (child == nullptr || values == nullptr) detail::damaged("missing child " + std::to_string(c));
    // The name of a released schema is gone; a null pointer is how some producers say that a name is empty.
    names_.emplace_back(child->release != nullptr && child->name != nullptr ? child->name : "");
    const std::string& name = names_.back();
    try {
      detail::check_node(*child, *values);
      check_name(name, reading.limits);
      columns_.push_back(detail::take_array(*child, *values, array.offset, rows_, reading, hasher_));
      if (child->dictionary != nullptr) add_dictionary(*child->dictionary, *values->dictionary, c, reading);
    } catch (const ColumnFailure& failure) {
      throw failure.in(name);
    }
  }

  static void check_name(const std::string& name, const ColumnLimits& limits) {
    using Code = ColumnFailure::Code;
    if (name.empty()) throw ColumnFailure(Code::name, "empty name; give the column one");
    if (name.size() > limits.name_bytes) {
      throw ColumnFailure("name_bytes", limits.name_bytes, name.size(), "bytes in a name");
    }
    if (!is_utf8(reinterpret_cast<const uint8_t*>(name.data()), name.size())) {
      throw ColumnFailure(Code::name, "name that is not valid UTF-8; rename the column");
    }
  }

  void check_unique() const {
    std::unordered_set<std::string_view> seen;
    for (const std::string& name : names_) {
      if (!seen.insert(name).second) {
        throw ColumnFailure(ColumnFailure::Code::duplicate, "name given twice; rename or drop one").in(name);
      }
    }
  }

  // Prepares the entries, unless there are more of them than rows that are read: then few are, each on its own.
  void add_dictionary(const ArrowSchema& schema, const ArrowArray& array, uint64_t c, const ColumnReading& reading) {
    ArrowColumn& column = columns_.back();
    if (!is_index(column.kind)) detail::damaged("dictionary with indexes that are no integers");
    Dictionary& dictionary = dictionaries_[c];
    dictionary.values.push_back(detail::take_array(schema, array, 0, array.length, reading, hasher_));
    if (schema.dictionary != nullptr) {
      throw ColumnFailure(ColumnFailure::Code::type, "a dictionary of dictionaries; decode it first");
    }
    const ArrowColumn& values = dictionary.values.front();
    if (array.length <= rows_ && static_cast<uint64_t>(array.length) <= reading.limits.prepared) {
      dictionary.entries.resize(static_cast<size_t>(array.length));
      int64_t at = 0;
      for (DictionaryEntry& entry : dictionary.entries) {
        entry.found = detail::read_cell(values, at++, entry.value, entry.key);
      }
      column.entries = dictionary.entries.data();
    }
    column.index = column.kind;
    column.kind = ColumnKind::dictionary;
    column.dictionary = &values;
    column.entry_count = static_cast<uint64_t>(array.length);
    column.longest = values.longest;
  }

  int64_t rows_ = 0;
  const Hasher& hasher_;
  const uint8_t* validity_ = nullptr;  // of whole rows
  int64_t first_ = 0;
  std::vector<ArrowColumn> columns_;
  std::vector<std::string> names_;
  std::vector<Dictionary> dictionaries_;  // by column
};

}  // namespace palio
