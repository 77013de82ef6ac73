// Hostile bodies: validating and matching one ends with a result or with a failure.
#include "fuzz.hpp"

using namespace palio;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Index index;
  if (index.size() == 0) {
    std::mt19937 random(1);
    fuzz::fill(index, random, 2000);
  }
  std::vector<uint8_t> exactly(data, data + size);  // the sanitizer guards its end
  View view = index.view();
  Workspace workspace(view.hasher);
  BodyVisitor visitor{view, workspace.matcher.event};
  try {
    read_body(exactly.data(), size, {64, 64, 4096, 4096}, visitor);
    workspace.run(view, false);
  } catch (const DecodeFailure&) {
  }
  return 0;
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {
      "\x92\x01\x80"s,
      "\x92\x01\x82\xa2n0\x05\xa2n1\xa5"s + "alarm",
      "\x92\x01\x86\xa2n0\xc3\xa2n1\xcb\x40\x09\x21\xfb\x54\x44\x2d\x18\xa2n2\xd6\xff\x00\x00\x00\x05\xa2n3\xc4\x02"s + "ab" +
          "\xa2n4\xd3\x00\x20\x00\x00\x00\x00\x00\x01\xa2n5\xd9\x19"s + "https://example.org/a/b?c",
      "\x94\x01\x81\xa2n0\xff\xaa"s + "text/plain" + "\xc4\x03"s + "abc",
  };
}

void repair(std::string&) {}
