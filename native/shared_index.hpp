// An index that several threads use: many match at once, one changes it, and nobody waits for ever.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "body.hpp"
#include "file.hpp"
#include "matcher.hpp"

namespace palio {

// Many readers or one writer. Newcomers queue behind a waiting writer, so that a stream of readers cannot starve it.
class FairLock {
 public:
  bool try_lock() { return gate_.try_lock() && pass([&] { return state_.try_lock(); }); }
  bool try_lock_shared() { return gate_.try_lock() && pass([&] { return state_.try_lock_shared(); }); }
  void lock() {
    std::lock_guard<std::mutex> hold(gate_);
    state_.lock();
  }
  void lock_shared() {
    std::lock_guard<std::mutex> hold(gate_);
    state_.lock_shared();
  }
  void unlock() { state_.unlock(); }
  void unlock_shared() { state_.unlock_shared(); }

 private:
  template <class Try>
  bool pass(Try attempt) {
    bool got = attempt();
    gate_.unlock();
    return got;
  }

  std::mutex gate_;
  std::shared_mutex state_;
};

// Reads the attributes of an encoded body into an event; names that no filter mentions are passed over.
struct BodyVisitor {
  const View& view;
  Event& event;

  void attribute(std::string_view name, const Token& token) {
    const NameObject* known = view.find_name(name);
    if (known == nullptr) return;
    switch (token.kind) {
      case Kind::boolean: return event.add(known->id, Value::of_boolean(token.integer != 0));
      case Kind::integer: return event.add(known->id, Value::of_integer(token.integer));
      case Kind::real: return event.add(known->id, Value::of_real(token.real));
      case Kind::time: return event.add(known->id, Value::of_time(token.integer));
      case Kind::bytes: return event.add(known->id, Value::of_bytes(token.text));
      default: return event.add(known->id, Value::of_string(token.text));
    }
  }

  void payload(std::string_view, std::string_view) {}
};

// Brings slots, each of which occurs once, into order.
class SlotSorter {
 public:
  void sort(Slot* begin, Slot* end) {
    if (std::is_sorted(begin, end)) return;
    size_t count = static_cast<size_t>(end - begin);
    if (count < 512) return std::sort(begin, end);
    Slot greatest = 0;
    for (Slot* at = begin; at != end; ++at) greatest = std::max(greatest, *at);
    size_t words = greatest / 64 + 1;
    if (words > count) return std::sort(begin, end);
    // Many of a narrow range: mark them and read the marks in order. Each has a byte, not a bit, because neighbours
    // would have to wait for one another.
    marks_.assign(words * 64, 0);
    for (Slot* at = begin; at != end; ++at) marks_[*at] = 1;
    Slot* at = begin;
    for (size_t word = 0; word < words; ++word) at = read(word, at);
    if (at != end) View::damaged();  // a sound index finds each filter once
  }

  size_t used_bytes() const { return marks_.capacity(); }

 private:
  // Writes the slots that are marked among 64.
  Slot* read(size_t word, Slot* at) const {
    const Slot first = static_cast<Slot>(word * 64);
    uint64_t marked = bits_of_bytes(&marks_[first]);
    if (marked == ~uint64_t{0}) {  // all of them: no need to look at each
      for (Slot i = 0; i < 64; ++i) at[i] = first + i;
      return at + 64;
    }
    for (; marked != 0; marked &= marked - 1) *at++ = first + static_cast<Slot>(__builtin_ctzll(marked));
    return at;
  }

  std::vector<uint8_t> marks_;
};

// What one call needs for itself.
class Workspace {
 public:
  explicit Workspace(const Hasher& hasher) : matcher(hasher) {}

  Matcher matcher;
  std::vector<std::pair<std::string_view, Value>> given;  // attributes as the caller has them

  // Matches the event that was put into the matcher.
  void run(const View& view, bool only_one) {
    matcher.match(view, only_one);
    Slot *begin = matcher.found(), *end = begin + matcher.found_count();
    sorter_.sort(begin, end);
    begin_ = begin, end_ = end;
    if (begin_ != end_ && end_[-1] >= view.slots) View::damaged();
    has_ids_ = view.has_generations;
    if (!has_ids_) return;
    ids_.assign(begin_, end_);
    for (uint64_t& id : ids_) {
      uint64_t generation = view.places[id].generation;
      if (generation > most_generation) View::damaged();
      id |= generation << 32;
    }
    std::sort(ids_.begin(), ids_.end());
  }

  // Leaves out some of what was found: reduce(begin, end) changes ids in their places and returns their new end.
  template <class Reducer>
  void reduce(Reducer& reducer) {
    if (!has_ids_) {
      end_ = reducer.reduce(begin_, end_);
    } else {
      uint64_t* begin = ids_.data();
      ids_.resize(static_cast<size_t>(reducer.reduce(begin, begin + ids_.size()) - begin));
    }
  }

  // No event, nothing found.
  void skip() { end_ = begin_, has_ids_ = false; }

  size_t count() const { return has_ids_ ? ids_.size() : static_cast<size_t>(end_ - begin_); }
  size_t used_bytes() const { return matcher.used_bytes() + ids_.capacity() * sizeof(uint64_t) + sorter_.used_bytes(); }

  // Calls visit(begin, end) with what the event met, ascending. Slots that were never used again are ids as they are.
  template <class Visit>
  auto visit(Visit visit) const {
    const Slot *begin = begin_, *end = end_;
    return has_ids_ ? visit(ids_.data(), ids_.data() + ids_.size()) : visit(begin, end);
  }

 private:
  Slot *begin_ = nullptr, *end_ = nullptr;
  std::vector<uint64_t> ids_;
  SlotSorter sorter_;
  bool has_ids_ = false;
};

class SharedIndex {
 public:
  explicit SharedIndex(const Hasher& hasher) : hasher_(hasher), index_(std::make_unique<Index>(hasher)) {
    pool_.reserve(most_pooled);
  }
  explicit SharedIndex(const std::string& path)
      : file_(std::make_unique<MappedFile>(path)), hasher_(file_->view().hasher) {
    pool_.reserve(most_pooled);
  }

  FairLock lock;

  const Hasher& hasher() const { return hasher_; }
  bool is_mapped() const { return file_ != nullptr; }
  Index& index() { return *index_; }
  const Index& index() const { return *index_; }
  const MappedFile& file() const { return *file_; }
  View view() const { return index_ ? index_->view() : file_->view(); }

  Census census() const { return index_ ? index_->census() : file_->census(); }

  // With the workspaces that wait for the next call.
  size_t memory_usage() {
    size_t bytes = index_ ? index_->storage().used_bytes() : file_->size();
    std::lock_guard<std::mutex> hold(pool_lock_);
    for (const std::unique_ptr<Workspace>& workspace : pool_) bytes += workspace->used_bytes();
    return bytes;
  }

  // The index as a file, piece by piece: put(data, size).
  template <class Put>
  void write(Put put) const {
    if (index_) return write_index(*index_, put);
    put(file_->data(), file_->size());
  }

  // -- workspaces --------------------------------------------------------------------------------------------------------

  std::unique_ptr<Workspace> take_workspace() {
    std::lock_guard<std::mutex> hold(pool_lock_);
    if (pool_.empty()) return std::make_unique<Workspace>(hasher_);
    std::unique_ptr<Workspace> workspace = std::move(pool_.back());
    pool_.pop_back();
    return workspace;
  }

  void give_workspace(std::unique_ptr<Workspace> workspace) {
    std::lock_guard<std::mutex> hold(pool_lock_);
    if (pool_.size() < most_pooled) pool_.push_back(std::move(workspace));  // there is room, so it cannot fail
  }

  // -- learning from events ------------------------------------------------------------------------------------------------

  // Called after matches, with the lock held for reading, for all the events since the last call; one of them is given, or
  // null, and one in so many of those is remembered.
  void observe(const Event* event, uint64_t events, uint64_t tested) {
    tested_.fetch_add(tested, std::memory_order_relaxed);
    uint64_t before = events_.fetch_add(events, std::memory_order_relaxed);
    if (!index_ || event == nullptr || before / sampled == (before + events) / sampled) return;
    std::unique_lock<std::mutex> hold(sample_lock_, std::try_to_lock);
    if (!hold.owns_lock()) return;
    try {
      index_->observe(*event);
    } catch (const std::bad_alloc&) {  // then it is not remembered
    }
  }

  // Called between events, without the lock: as much as matching has cost, now and then a little is spent on looking
  // again at where filters are filed, unless someone else is using the index.
  void care() {
    if (!index_) return;
    uint64_t work = events() + tested() / 256;
    if (work - cared_.load(std::memory_order_relaxed) < 1024) return;
    std::unique_lock<FairLock> hold(lock, std::try_to_lock);
    if (!hold.owns_lock()) return;
    cared_.store(work, std::memory_order_relaxed);
    try {
      index_->reconsider(64);
    } catch (const std::exception&) {  // no room to move filters: they stay where they are, and are found all the same
    }
  }

  uint64_t events() const { return events_.load(std::memory_order_relaxed); }
  uint64_t tested() const { return tested_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t sampled = 61;
  static constexpr size_t most_pooled = 16;

  std::unique_ptr<MappedFile> file_;  // or none
  Hasher hasher_;
  std::unique_ptr<Index> index_;  // or none
  std::mutex pool_lock_, sample_lock_;
  std::vector<std::unique_ptr<Workspace>> pool_;
  std::atomic<uint64_t> events_{0}, tested_{0}, cared_{0};
};

}  // namespace palio
