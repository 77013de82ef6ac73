// What went wrong with encoded input. The binding turns it into palio.errors.DecodeError or DecodeLimitError.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace palio {

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

}  // namespace palio
