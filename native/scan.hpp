// Finds the frames in what was read from a connection, before anything is done with them.
#pragma once

#include <cstdint>
#include <vector>

#include "board.hpp"

namespace palio {

struct FrameRun {
  uint8_t kind;
  size_t begin, end;  // with lengths and kinds; several publications, or one frame of another kind, or too short to be one

  bool is_publications() const {
    return kind == Board::publish_kind && end - begin >= Board::length_bytes + 1 + Board::number_bytes;
  }
};

struct Scan {
  std::vector<FrameRun> runs;
  size_t consumed = 0;   // the rest is the beginning of a frame
  bool is_bad = false;   // after what was consumed comes a frame that is empty or too long
};

// At most so many bytes may follow a length.
inline Scan scan_frames(const uint8_t* data, size_t size, size_t most) {
  Scan scan;
  while (size - scan.consumed >= Board::length_bytes + 1) {
    const uint8_t* frame = data + scan.consumed;
    const size_t length = Board::big_endian(frame);
    if (length < 1 || length > most) {
      scan.is_bad = true;
      break;
    }
    if (length > size - scan.consumed - Board::length_bytes) break;
    const uint8_t kind = frame[Board::length_bytes];
    const size_t end = scan.consumed + Board::length_bytes + length;
    const bool is_publication = kind == Board::publish_kind && length >= 1 + Board::number_bytes;
    if (is_publication && !scan.runs.empty() && scan.runs.back().is_publications()) {
      scan.runs.back().end = end;
    } else {
      scan.runs.push_back({kind, scan.consumed, end});
    }
    scan.consumed = end;
  }
  return scan;
}

}  // namespace palio
