// Matching the rows of a batch, without the interpreter and with the index free for others every few rows.
#pragma once

#include <algorithm>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "arrow.hpp"
#include "buffer.hpp"
#include "shared_index.hpp"
#include "unions.hpp"

namespace palio {

constexpr int64_t most_rows = std::numeric_limits<int32_t>::max();

// What was found for a row and not handed out yet.
struct RestOfRow {
  int64_t row = 0;
  const int64_t* begin = nullptr;
  const int64_t* end = nullptr;

  bool is_empty() const { return begin == end; }
};

// Pairs of row and filter, as many as allowed. What is found beyond that of a row is kept, so that no row is matched again;
// or with whole rows, the row that reaches the limit is the last one, and comes with all that it has.
class PairSink {
 public:
  PairSink(uint64_t limit, bool whole_rows, RestOfRow after) : limit_(limit), whole_rows_(whole_rows), after_(after) {}

  // Hands out first what an earlier call has left.
  void begin(int64_t all_rows) {
    all_rows_ = all_rows;
    first_row_ = next_row_ = std::min(after_.row + (after_.is_empty() ? 0 : 1), all_rows);
    if (after_.row >= all_rows || after_.is_empty()) return;
    size_t left = static_cast<size_t>(after_.end - after_.begin);
    size_t count = whole_rows_ ? left : static_cast<size_t>(std::min<uint64_t>(left, limit_));
    std::fill_n(rows.extend(count), count, static_cast<int32_t>(after_.row));
    std::copy_n(after_.begin, count, ids.extend(count));
    taken_ = count;
    is_full_ = count < left || (whole_rows_ && count >= limit_);
    if (count < left) next_row_ = after_.row;
  }

  Buffer<int32_t> rows;
  Buffer<int64_t> ids;
  Buffer<int64_t> rest;  // of the row that comes next, which was matched then; if there is none, it was not

  int64_t first_row() const { return first_row_; }
  bool is_full() const { return is_full_; }
  uint64_t most_pairs() const { return limit_; }  // rows that are not read would make preparing for them a waste
  bool is_done() const { return next_row_ == all_rows_; }
  int64_t next_row() const { return next_row_; }
  size_t taken() const { return taken_; }  // of what an earlier call has left

  void shrink() {
    rows.shrink();
    ids.shrink();
  }

  void take(int64_t row, const Workspace& workspace) {
    workspace.visit([&](auto begin, auto end) {
      size_t found = static_cast<size_t>(end - begin);
      size_t count = whole_rows_ ? found : static_cast<size_t>(std::min<uint64_t>(found, limit_ - rows.size()));
      size_t expected = this->expected(row, count);
      std::fill_n(rows.extend(count, expected), count, static_cast<int32_t>(row));
      std::copy_n(begin, count, ids.extend(count, expected));
      if (count < found) std::copy_n(begin + count, found - count, rest.extend(found - count));
      is_full_ = count < found || (whole_rows_ && rows.size() >= limit_);
      next_row_ = count < found ? row : row + 1;
    });
  }

 private:
  // As many as there will be if rows go on like this, within reason.
  size_t expected(int64_t row, size_t count) const {
    double so_far = static_cast<double>(rows.size() + count);
    double share = static_cast<double>(row + 1 - first_row_) / static_cast<double>(all_rows_ - first_row_);
    double most = std::min(so_far + most_ahead, static_cast<double>(limit_));
    return static_cast<size_t>(std::min(so_far * 1.02 / share, most));
  }

  static constexpr double most_ahead = 1 << 22;  // memory that is not used yet costs addresses only

  uint64_t limit_;
  bool whole_rows_;
  RestOfRow after_;
  int64_t all_rows_ = 1, first_row_ = 0, next_row_ = 0;
  size_t taken_ = 0;
  bool is_full_ = false;
};

// How many filters each row meets.
class CountSink {
 public:
  Buffer<int64_t> counts;

  void begin(int64_t) {}
  int64_t first_row() const { return 0; }
  bool is_full() const { return false; }
  uint64_t most_pairs() const { return ~uint64_t{0}; }
  void take(int64_t, const Workspace& workspace) { counts.push_back(static_cast<int64_t>(workspace.count())); }
};

// How often each filter is met, by id, added to what the caller has counted so far; a union by the first of its filters.
class TallySink {
 public:
  TallySink(int64_t* counts, uint64_t size, const UnionReducer* reducer)
      : counts_(counts), size_(size), reducer_(reducer) {}

  void begin(int64_t) {}
  int64_t first_row() const { return 0; }
  bool is_full() const { return false; }
  uint64_t most_pairs() const { return ~uint64_t{0}; }

  void take(int64_t, const Workspace& workspace) {
    workspace.visit([&](auto begin, auto end) {
      if (begin != end && end[-1] >= size_) throw CapacityFailure("counts", size_, end[-1] + 1, "counts needed");
      for (auto at = begin; at != end; ++at) ++counts_[*at];
      if (begin == end || reducer_ == nullptr) return;
      for (const auto& [filter, owner] : reducer_->displaced()) --counts_[filter], ++counts_[owner];
    });
  }

 private:
  int64_t* counts_;
  uint64_t size_;
  const UnionReducer* reducer_;
};

// Values, or whole bodies, that cannot be read: ascending by row, and why.
struct Unreadable {
  struct Place {
    int64_t row;
    size_t column;
    size_t failure;  // of those below: most are the same
  };

  std::vector<Place> places;
  std::vector<std::exception_ptr> failures;

  template <class Failure>
  size_t add_failure(const Failure& failure) {
    failures.push_back(std::make_exception_ptr(failure));
    return failures.size() - 1;
  }
};

// One column an attribute; null is absence. A value that cannot be read fails what filters say about its attribute.
class AttributeRows {
 public:
  explicit AttributeRows(const ArrowBatch& batch) : batch_(batch) {}

  // Names have other numbers after filters came and went.
  void resolve(const View& view) {
    columns_.clear();
    for (size_t c = 0; c < batch_.columns(); ++c) {
      const NameObject* known = view.find_name(batch_.name(c));
      if (known != nullptr) columns_.push_back({c, known->id});
    }
  }

  bool read(const View&, int64_t row, Event& event, Unreadable* unreadable) {
    Value value;
    Key key;
    for (const auto& [column, name] : columns_) {
      Found found = batch_.find(column, row, value, key);
      if (found == Found::present) {
        event.add(name, value, key);
      } else if (__builtin_expect(found != Found::absent, 0)) {
        note(column, row, found, value, unreadable);
        event.add_unreadable(name);
      }
    }
    return true;
  }

 private:
  // One that is reported often is made once.
  struct Known {
    size_t column;
    Found found;
    size_t failure;
  };

  [[gnu::noinline, gnu::cold]] void note(size_t column, int64_t row, Found found, const Value& value,
                                         Unreadable* unreadable) {
    const std::string name(batch_.name(column));
    if (unreadable == nullptr || is_damage(found)) throw batch_.failure(column, found, value).in(name, row);
    auto is_same = [&](const Known& known) { return known.column == column && known.found == found; };
    auto known = std::find_if(known_.begin(), known_.end(), is_same);
    if (known != known_.end()) return unreadable->places.push_back({row, column, known->failure});
    const size_t failure = unreadable->add_failure(batch_.failure(column, found, value).in(name));
    unreadable->places.push_back({row, column, failure});
    if (found != Found::long_text) known_.push_back({column, found, failure});  // that one says how long the text is
  }

  const ArrowBatch& batch_;
  std::vector<std::pair<size_t, NameId>> columns_;
  std::vector<Known> known_;
};

// One column of encoded bodies; null is no event, nor is a body that cannot be read.
class BodyRows {
 public:
  BodyRows(const ArrowBatch& batch, size_t column, const BodyLimits& limits)
      : batch_(batch), column_(column), limits_(limits) {}

  void resolve(const View&) {}

  bool read(const View& view, int64_t row, Event& event, Unreadable* unreadable) const {
    try {
      return read(view, row, event);
    } catch (const ColumnFailure& failure) {
      using Code = ColumnFailure::Code;
      if (unreadable == nullptr || (failure.code() != Code::value && failure.code() != Code::limit)) throw;
      unreadable->places.push_back({row, column_, unreadable->add_failure(failure.in(failure.column()))});
    } catch (const DecodeFailure& failure) {
      std::string place = "row " + std::to_string(row);
      if (unreadable == nullptr) throw failure.at(failure.path().empty() ? place : place + ": " + failure.path());
      unreadable->places.push_back({row, column_, unreadable->add_failure(failure)});
    }
    return false;
  }

 private:
  bool read(const View& view, int64_t row, Event& event) const {
    Value value;
    Key key;
    if (!batch_.get(column_, row, value, key)) return false;
    if (value.type != Type::bytes) {
      throw ColumnFailure(ColumnFailure::Code::type, "bodies are binary; this column is of another type")
          .in(std::string(batch_.name(column_)));
    }
    BodyVisitor visitor{view, event};
    read_body(reinterpret_cast<const uint8_t*>(value.text.data()), value.text.size(), limits_, visitor);
    return true;
  }

  const ArrowBatch& batch_;
  size_t column_;
  BodyLimits limits_;
};

template <class Rows, class Sink>
void match_rows(SharedIndex& shared, int64_t count, Rows rows, UnionReducer* reducer, Sink& sink,
                Unreadable* unreadable) {
  constexpr int64_t at_once = 64;
  sink.begin(count);
  std::unique_ptr<Workspace> workspace = shared.take_workspace();
  for (int64_t row = sink.first_row(); row < count && !sink.is_full();) {
    {
      std::shared_lock<FairLock> hold(shared.lock);
      View view = shared.view();
      uint64_t events = 0, tested = 0;
      bool is_event = false;
      rows.resolve(view);
      for (int64_t end = std::min(row + at_once, count); row < end && !sink.is_full(); ++row) {
        workspace->matcher.event.clear();
        is_event = rows.read(view, row, workspace->matcher.event, unreadable);
        if (is_event) {
          workspace->run(view, false);
          if (reducer != nullptr) workspace->reduce(*reducer);
          ++events;
          tested += workspace->matcher.tested();
        } else {
          workspace->skip();
        }
        sink.take(row, *workspace);
      }
      shared.observe(is_event ? &workspace->matcher.event : nullptr, events, tested);
    }
    shared.care();
  }
  shared.give_workspace(std::move(workspace));
}

}  // namespace palio
