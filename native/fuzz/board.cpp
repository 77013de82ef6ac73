// Hostile bytes on a connection: scanned for frames, and publications dispatched to parties, as a server does. The first
// byte says how; the rest is what was read.
#include "../board.hpp"

#include <cstdlib>
#include <set>

#include "../scan.hpp"
#include "fuzz.hpp"

using namespace palio;

namespace {

constexpr PartyNumber parties = 40;
constexpr size_t header = Board::length_bytes + 1, most_frame = 1 << 16;

void expect(bool condition) {
  if (!condition) std::abort();
}

struct World {
  SharedIndex shared{Hasher()};
  Board board;

  World() {
    std::mt19937 random(1);
    fuzz::fill(shared.index(), random, 2000);
    for (Slot slot = 0; slot < 2000; ++slot) {
      for (size_t i = random() % 3; i > 0; --i) board.add(slot, random() % parties);
      if (random() % 4 == 0) board.set_others(slot, true);
      if (random() % 8 == 0) board.remove(slot, random() % parties);
      if (random() % 16 == 0) board.forget(slot);
    }
    for (PartyNumber party = 0; party < parties; party += 3) board.set_logged(party, true);
  }
};

// How many whole frames there are; each has the length that it says.
size_t count_frames(const std::string& frames) {
  size_t count = 0, at = 0;
  for (; at < frames.size(); ++count) {
    expect(frames.size() - at >= header);
    at += Board::length_bytes + Board::big_endian(reinterpret_cast<const uint8_t*>(frames.data()) + at);
  }
  expect(at == frames.size());
  return count;
}

// Handles a run of publications, block after block, until all of it is consumed.
void dispatch(World& world, const uint8_t* block, size_t size, uint8_t how) {
  const Stamp stamp{"milan", 3, 100, 1783000000123456, "adam"};
  const size_t most_bytes = how & 4 ? 2000 : 1 << 20;
  while (size > 0) {
    world.board.dispatch(world.shared, block, size, stamp, {64, 64, 4096, 4096}, 8192, how & 1, how & 2, most_bytes);
    expect(world.board.consumed > 0 && world.board.consumed <= size);
    expect(count_frames(world.board.log) == world.board.log_count);
    for (const Other& other : world.board.others) expect(other.offset + other.size <= world.board.consumed);
    std::set<PartyNumber> got;
    world.board.take_all([&](PartyNumber party, const Board::Outgoing& outgoing) {
      expect(party < parties && got.insert(party).second);
      expect(count_frames(outgoing.frames) == outgoing.count && outgoing.count <= world.board.accepted);
    });
    block += world.board.consumed;
    size -= world.board.consumed;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World world;
  if (size == 0) return 0;
  std::vector<uint8_t> exactly(data + 1, data + size);  // the sanitizer guards its end
  const Scan scan = scan_frames(exactly.data(), exactly.size(), most_frame);
  expect(scan.consumed <= exactly.size());
  size_t end = 0;
  for (const FrameRun& run : scan.runs) {
    expect(run.begin == end && run.end > run.begin && run.end <= scan.consumed);
    end = run.end;
    if (run.kind != Board::publish_kind) continue;
    std::vector<uint8_t> block(exactly.begin() + static_cast<long>(run.begin), exactly.begin() + static_cast<long>(run.end));
    try {
      dispatch(world, block.data(), block.size(), data[0]);
    } catch (const DecodeFailure&) {  // a frame that is too short for a publication
    }
  }
  return 0;
}

namespace {

void put_frame(std::string& out, uint8_t kind, const std::string& content) {
  const size_t length = content.size() + 1;
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(length >> shift));
  out.push_back(static_cast<char>(kind));
  out += content;
}

}  // namespace

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  const std::vector<std::string> bodies = {
      "\x92\x01\x80"s,
      "\x92\x01\x82\xa2n0\x05\xa2n1\xa5"s + "alarm",
      "\x92\x01\x84\xa2n0\xc3\xa2n1\xcb\x40\x09\x21\xfb\x54\x44\x2d\x18\xa2n3\xc4\x02"s + "ab" +
          "\xa2n5\xd9\x19"s + "https://example.org/a/b?c",
      "\x94\x01\x81\xa2n0\xff\xaa"s + "text/plain" + "\xc4\x03"s + "abc",
  };
  std::vector<std::string> all;
  for (char how = 0; how < 8; ++how) {
    std::string read(1, how);
    for (uint8_t i = 0; i < 12; ++i) {
      if (i == 7) put_frame(read, 0x31, "ping");
      put_frame(read, Board::publish_kind, "\0\0\0"s + static_cast<char>(i) + bodies[i % bodies.size()]);
    }
    all.push_back(read);
  }
  return all;
}

// Most mutations spoil a length, and what follows would not be looked at: a frame that is too long ends with the input.
void repair(std::string& input) {
  size_t at = 1;
  while (at + header <= input.size()) {
    const size_t left = input.size() - at - Board::length_bytes;
    size_t length = Board::big_endian(reinterpret_cast<const uint8_t*>(input.data()) + at);
    if (length == 0 || length > left) {
      length = left;
      for (size_t i = 0; i < 4; ++i) input[at + i] = static_cast<char>(length >> (24 - 8 * i));
    }
    at += Board::length_bytes + length;
  }
}
