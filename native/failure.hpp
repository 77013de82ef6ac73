// What can go wrong in the core; the binding turns each into a class of palio.errors.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace palio {

// Encoded input that breaks the rules: palio.errors.DecodeError or DecodeLimitError.
class DecodeFailure : public std::exception {
 public:
  explicit DecodeFailure(std::string problem) : problem_(std::move(problem)) {}
  DecodeFailure(const char* limit, uint64_t allowed, std::string what)
      : problem_(std::move(what)), limit_(limit), allowed_(allowed) {}

  // The same failure at a place further out: "attributes" becomes "body.attributes".
  DecodeFailure at(std::string path) const {
    DecodeFailure placed = *this;
    placed.path_ = std::move(path);
    return placed;
  }

  const char* what() const noexcept override { return problem_.c_str(); }
  const std::string& problem() const { return problem_; }
  const std::string& path() const { return path_; }
  const char* limit() const { return limit_; }  // the limit's name, or null if no limit was hit
  uint64_t allowed() const { return allowed_; }

 private:
  std::string problem_;
  std::string path_;
  const char* limit_ = nullptr;
  uint64_t allowed_ = 0;
};

// A batch of columns that cannot be read: what is wrong (with the remedy), in which column and row if in one.
class ColumnFailure : public std::exception {
 public:
  enum class Code : uint8_t {
    batch,      // no record batch, or one that is damaged
    type,       // a column of a type that has no counterpart here
    name,       // a column's name that cannot be an attribute's
    duplicate,  // two columns of the same name
    value,      // a value outside the model
    limit,      // more or longer than a limit allows
  };

  ColumnFailure(Code code, std::string problem) : code_(code), problem_(std::move(problem)) {}
  ColumnFailure(const char* limit, uint64_t allowed, uint64_t actual, std::string what)
      : code_(Code::limit), problem_(std::move(what)), limit_(limit), allowed_(allowed), actual_(actual) {}

  // The same failure in this column, and in this row of the batch, counted from zero.
  ColumnFailure in(std::string column, int64_t row = -1) const {
    ColumnFailure placed = *this;
    placed.column_ = std::move(column);
    placed.has_column_ = true;
    placed.row_ = row;
    return placed;
  }

  const char* what() const noexcept override { return problem_.c_str(); }
  Code code() const { return code_; }
  const std::string& problem() const { return problem_; }
  bool has_column() const { return has_column_; }
  const std::string& column() const { return column_; }  // bytes as the producer gave them, perhaps no UTF-8
  int64_t row() const { return row_; }                   // or -1
  const char* limit() const { return limit_; }           // the limit's name, or null if no limit was hit
  uint64_t allowed() const { return allowed_; }
  uint64_t actual() const { return actual_; }

 private:
  Code code_;
  std::string problem_;
  bool has_column_ = false;
  std::string column_;
  int64_t row_ = -1;
  const char* limit_ = nullptr;
  uint64_t allowed_ = 0;
  uint64_t actual_ = 0;
};

// A file that is no index, or a damaged one. The binding turns it into palio.errors.FileFormatError.
class FileFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The index is larger than a limit of its own form. The binding turns it into palio.errors.LimitError.
class CapacityFailure : public std::exception {
 public:
  CapacityFailure(const char* limit, uint64_t allowed, uint64_t actual, const char* what)
      : limit_(limit), allowed_(allowed), actual_(actual), what_(what) {}

  const char* what() const noexcept override { return what_; }
  const char* limit() const { return limit_; }
  uint64_t allowed() const { return allowed_; }
  uint64_t actual() const { return actual_; }

 private:
  const char* limit_;
  uint64_t allowed_, actual_;
  const char* what_;
};

}  // namespace palio
