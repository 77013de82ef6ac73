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
