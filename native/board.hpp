// Encoded publications on their way to the parties whose filters they meet: one pass over what was read from a
// connection, in which each is validated, matched, and written to everyone who gets it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "shared_index.hpp"
#include "writer.hpp"

namespace palio {

using PartyNumber = uint32_t;

// What the access point writes on the publications of a block.
struct Stamp {
  std::string_view origin;
  uint64_t incarnation;
  uint64_t sequence;   // of the first one; those that are refused have none
  int64_t published;   // likewise, in microseconds; each is later than the one before it
  std::string_view publisher;
};

// A publication that somebody else wants, too: a neighbour, or a pattern.
struct Other {
  size_t offset, size;  // of its body in the block
  uint64_t sequence;
  int64_t published;
};

struct RefusedPublication {
  uint32_t number;
  std::exception_ptr failure;
};

class Board {
 public:
  static constexpr uint8_t publish_kind = 0x10, deliver_kind = 0x20;
  static constexpr size_t length_bytes = 4, number_bytes = 4, envelope_length_bytes = 2;

  static uint32_t big_endian(const uint8_t* at) {
    return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
  }

  // -- who holds what ------------------------------------------------------------------------------------------------------

  void add(Slot slot, PartyNumber party) {
    Target& target = target_of(slot);
    target.parties.push_back(party);
    if (party >= marks_.size()) {
      marks_.resize(party + 1 + party / 2);
      outgoing_.resize(marks_.size());
    }
  }

  void remove(Slot slot, PartyNumber party) {
    std::vector<PartyNumber>& parties = target_of(slot).parties;
    auto at = std::find(parties.begin(), parties.end(), party);
    if (at != parties.end()) parties.erase(at);
  }

  void set_others(Slot slot, bool has_others) { target_of(slot).has_others = has_others; }

  // The filter is gone; its slot may be used again.
  void forget(Slot slot) {
    if (slot < targets_.size()) targets_[slot] = Target();
  }

  // -- publications --------------------------------------------------------------------------------------------------------

  struct Outgoing {
    std::string frames;
    uint32_t count = 0;
    // Of a party whose deliveries are logged: which frames of the log are its.
    std::string selection;
    uint32_t place = 0, begin = 0, end = 0;

    void select(uint32_t ordinal) {
      if (ordinal != end || begin == end) {
        finish();
        begin = ordinal;
      }
      end = ordinal + 1;
    }

    // Writes the run that is not over yet: how many frames are passed over, how many are taken.
    void finish() {
      if (begin == end) return;
      put(begin - place);
      put(end - begin);
      place = begin = end;
    }

    void clear() {
      count = place = begin = end = 0;
      selection.clear();
    }

   private:
    void put(uint32_t number) {
      for (; number > 0x7F; number >>= 7) selection.push_back(static_cast<char>(number & 0x7F | 0x80));
      selection.push_back(static_cast<char>(number));
    }
  };

  size_t accepted = 0;     // of the last block
  size_t consumed = 0;     // bytes of it
  uint32_t last_number = 0;  // the highest of its numbers
  std::vector<Other> others;
  std::vector<RefusedPublication> refused;
  std::string log;         // the frames of all that is logged, each once
  uint32_t log_count = 0;  // of them

  // Whether what is delivered to a party is logged.
  void set_logged(PartyNumber party, bool is_logged) {
    if (party >= logged_.size()) logged_.resize(party + 1 + party / 2);
    logged_[party] = is_logged;
  }

  // Handles a block until it ends, or so many bytes wait to be taken; or so much else that it would take as long.
  void dispatch(SharedIndex& shared, const uint8_t* block, size_t size, const Stamp& stamp, const BodyLimits& limits,
                uint64_t document_bytes, bool everything_goes_on, bool everything_logged, size_t most_bytes) {
    constexpr size_t at_once = 64;
    begin(stamp);
    everything_logged_ = everything_logged;
    std::unique_ptr<Workspace> workspace = shared.take_workspace();
    try {
      while (consumed < size && waiting_ < most_bytes) {
        {
          std::shared_lock<FairLock> hold(shared.lock);
          View view = shared.view();
          uint64_t events = 0;
          tested_ = 0;
          for (; events < at_once && consumed < size && waiting_ < most_bytes; ++events) {
            one(view, *workspace, block, size, limits, document_bytes, everything_goes_on);
          }
          shared.observe(&workspace->matcher.event, events, tested_);
        }
        shared.care();
      }
    } catch (...) {
      take_all([](PartyNumber, const Outgoing&) {});  // all of a block, or nothing
      shared.give_workspace(std::move(workspace));
      throw;
    }
    shared.give_workspace(std::move(workspace));
  }

  // Calls take(party, outgoing) for everyone who gets something, in the order of their numbers.
  template <class Take>
  void take_all(Take take) {
    std::sort(dirty_.begin(), dirty_.end());
    for (PartyNumber party : dirty_) {
      Outgoing& outgoing = outgoing_[party];
      outgoing.finish();
      take(party, outgoing);
      outgoing.clear();
      if (outgoing.frames.capacity() > kept_bytes) std::string().swap(outgoing.frames);
      outgoing.frames.clear();
    }
    dirty_.clear();
    waiting_ = 0;
  }

 private:
  static constexpr size_t kept_bytes = 1 << 18;  // room that a party's frames keep for the next time
  // Who takes them has more work with these than with deliveries: each counts for as many bytes as take as long.
  static constexpr size_t refused_counts = 1 << 16;
  static constexpr size_t other_counts = 1 << 13;

  struct Target {
    std::vector<PartyNumber> parties;
    bool has_others = false;
  };

  Target& target_of(Slot slot) {
    if (slot >= targets_.size()) targets_.resize(slot + 1 + slot / 2);
    return targets_[slot];
  }

  void begin(const Stamp& stamp) {
    accepted = consumed = 0;
    last_number = 0;
    others.clear();
    refused.clear();
    log.clear();
    log_count = 0;
    sequence_ = stamp.sequence;
    published_ = stamp.published;
    head_.clear();
    Writer head(head_);
    head.array(8);
    head.integer(body_version);
    head.text(stamp.origin);
    head.integer(static_cast<int64_t>(stamp.incarnation));
    tail_.clear();
    Writer tail(tail_);
    tail.text(stamp.publisher);
    tail.nil();
    tail.nil();
  }

  void one(const View& view, Workspace& workspace, const uint8_t* block, size_t size, const BodyLimits& limits,
           uint64_t document_bytes, bool everything_goes_on) {
    constexpr size_t header = length_bytes + 1 + number_bytes;
    if (size - consumed < header) throw DecodeFailure("no block of whole frames with publications");
    const uint8_t* frame = block + consumed;
    const size_t length = big_endian(frame);
    if (length < 1 + number_bytes || length > size - consumed - length_bytes || frame[length_bytes] != publish_kind) {
      throw DecodeFailure("no block of whole frames with publications");
    }
    const uint32_t number = big_endian(frame + length_bytes + 1);
    const size_t offset = consumed + header, body_size = length - 1 - number_bytes;
    consumed += length_bytes + length;
    last_number = std::max(last_number, number);
    workspace.matcher.event.clear();
    try {
      detail::within(body_size, "document_bytes", document_bytes, "bytes in one document");
      BodyVisitor visitor{view, workspace.matcher.event};
      read_body(block + offset, body_size, limits, visitor);
    } catch (const DecodeFailure& failure) {
      refused.push_back({number, std::make_exception_ptr(failure)});
      waiting_ += refused_counts;
      return;
    }
    workspace.matcher.match(view);
    tested_ += workspace.matcher.tested();
    const bool has_others = find_parties(workspace.matcher) || everything_goes_on;
    if (has_others) {
      others.push_back({offset, body_size, sequence_, published_});
      waiting_ += other_counts;
    }
    if (!found_.empty()) {
      deliver(block + offset, body_size);
    } else if (everything_logged_) {
      waiting_ += write_frame(log, block + offset, body_size);
      ++log_count;
    }
    ++accepted;
    ++sequence_;
    ++published_;
  }

  // Each party once, however many of its filters are met.
  bool find_parties(Matcher& matcher) {
    bool has_others = false;
    found_.clear();
    ++serial_;
    const Slot* end = matcher.found() + matcher.found_count();
    for (const Slot* at = matcher.found(); at != end; ++at) {
      if (*at >= targets_.size()) continue;  // nobody's
      const Target& target = targets_[*at];
      has_others |= target.has_others;
      for (PartyNumber party : target.parties) {
        if (marks_[party] == serial_) continue;
        marks_[party] = serial_;
        found_.push_back(party);
      }
    }
    return has_others;
  }

  // The frame is written once, and copied to everyone else.
  void deliver(const uint8_t* body, size_t size) {
    Outgoing& first = outgoing_[found_[0]];
    const size_t begin = first.frames.size();
    const size_t written = write_frame(first.frames, body, size);
    bool is_logged = everything_logged_;
    for (size_t i = 0; i < found_.size(); ++i) {
      const PartyNumber party = found_[i];
      Outgoing& outgoing = outgoing_[party];
      if (i > 0) outgoing.frames.append(first.frames, begin, written);
      count(party, outgoing);
      if (party < logged_.size() && logged_[party]) {
        outgoing.select(log_count);
        is_logged = true;
      }
    }
    if (is_logged) {
      log.append(first.frames, begin, written);
      ++log_count;
    }
    waiting_ += written * found_.size();
  }

  // Returns how many bytes it has.
  size_t write_frame(std::string& out, const uint8_t* body, size_t size) {
    const size_t begin = out.size();
    out.append(length_bytes, '\0');
    out.push_back(static_cast<char>(deliver_kind));
    out.append(envelope_length_bytes, '\0');
    const size_t envelope = out.size();
    out.append(head_);
    Writer writer(out);
    writer.integer(static_cast<int64_t>(sequence_));
    writer.time(published_);
    out.append(tail_);
    put_big_endian(&out[envelope - envelope_length_bytes], out.size() - envelope, envelope_length_bytes);
    out.append(reinterpret_cast<const char*>(body), size);
    const size_t written = out.size() - begin;
    put_big_endian(&out[begin], written - length_bytes, length_bytes);
    return written;
  }

  void count(PartyNumber party, Outgoing& outgoing) {
    if (outgoing.count++ == 0) dirty_.push_back(party);
  }

  static void put_big_endian(char* at, size_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
  }

  std::vector<Target> targets_;   // by slot
  std::vector<uint64_t> marks_;   // by party: the last publication that it was found for
  std::vector<Outgoing> outgoing_;  // by party
  std::vector<PartyNumber> found_, dirty_;
  std::vector<bool> logged_;  // by party
  bool everything_logged_ = false;
  std::string head_, tail_;  // of envelopes
  uint64_t serial_ = 0, sequence_ = 0, tested_ = 0;
  int64_t published_ = 0;
  size_t waiting_ = 0;
};

}  // namespace palio
