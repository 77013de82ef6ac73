// Columns that grow row by row, in the layout of Arrow.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "msgpack.hpp"

namespace palio {

// One column. A row that was passed over is null; that is made up for when the next value comes, or at the end, so a
// column in which little is costs little until then.
class ColumnBuilder {
 public:
  explicit ColumnBuilder(Kind kind) : kind_(kind) {
    if (is_text()) offsets_.push_back(0);
  }

  Kind kind() const { return kind_; }
  int64_t rows() const { return rows_; }
  int64_t nulls() const { return nulls_; }
  bool is_text() const { return kind_ == Kind::string || kind_ == Kind::bytes; }

  void append(int64_t row, const Token& value) {
    pad(row);
    switch (kind_) {
      case Kind::string:
      case Kind::bytes:
        text_.append(value.text);
        offsets_.push_back(static_cast<int32_t>(text_.size()));
        break;
      case Kind::boolean: set_bit(bits_, rows_, value.integer != 0); break;
      case Kind::real: {
        int64_t word;
        std::memcpy(&word, &value.real, sizeof(word));
        words_.push_back(word);
        break;
      }
      default: words_.push_back(value.integer);
    }
    set_bit(validity_, rows_, true);
    ++rows_;
  }

  // Nulls up to this row.
  void pad(int64_t rows) {
    if (rows_ >= rows) return;
    nulls_ += rows - rows_;
    if (is_text()) {
      offsets_.resize(static_cast<size_t>(rows) + 1, offsets_.back());
    } else if (kind_ == Kind::boolean) {
      set_bit(bits_, rows - 1, false);
    } else {
      words_.resize(static_cast<size_t>(rows));
    }
    set_bit(validity_, rows - 1, false);
    rows_ = rows;
  }

  const char* format() const {
    switch (kind_) {
      case Kind::string: return "u";
      case Kind::bytes: return "z";
      case Kind::boolean: return "b";
      case Kind::real: return "g";
      case Kind::time: return "tsu:UTC";
      default: return "l";
    }
  }

  // Validity, then what the kind has, as Arrow orders them.
  std::vector<const void*> buffers() const {
    const void* validity = nulls_ == 0 ? nullptr : validity_.data();
    if (is_text()) return {validity, offsets_.data(), text_.data()};
    if (kind_ == Kind::boolean) return {validity, bits_.data()};
    return {validity, words_.data()};
  }

 private:
  static void set_bit(std::vector<uint8_t>& bits, int64_t at, bool value) {
    size_t byte = static_cast<size_t>(at) / 8;
    if (byte >= bits.size()) bits.resize(byte + 1);
    if (value) bits[byte] = static_cast<uint8_t>(bits[byte] | 1u << (at % 8));
  }

  Kind kind_;
  int64_t rows_ = 0, nulls_ = 0;
  std::vector<uint8_t> validity_, bits_;
  std::vector<int64_t> words_;
  std::vector<int32_t> offsets_;
  std::string text_;
};

}  // namespace palio
