// Runs a fuzz target on mutated seeds, the same for the same arguments: fuzz_<target> [rounds] [first round]
#include <cstdio>
#include <cstdlib>

#include "fuzz.hpp"

namespace {

uint32_t interesting(std::mt19937& random) {
  static const uint32_t words[] = {0, 1, 7, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
  return random() % 2 == 0 ? words[random() % 10] : random() % 4096;
}

void mutate(std::string& input, std::mt19937& random) {
  size_t place = input.empty() ? 0 : random() % input.size();
  switch (random() % 6) {
    case 0: input[place] = static_cast<char>(input[place] ^ 1 << random() % 8); break;
    case 1: input[place] = static_cast<char>(random()); break;
    case 2:
    case 3: {  // words are what an index is made of
      uint32_t word = interesting(random);
      place &= ~size_t{3};
      if (place + 4 <= input.size()) std::memcpy(input.data() + place, &word, 4);
      break;
    }
    case 4: {
      size_t from = random() % input.size(), size = std::min<size_t>(random() % 64, input.size() - std::max(from, place));
      std::memmove(input.data() + place, input.data() + from, size);
      break;
    }
    default:
      if (random() % 8 == 0) input.resize(random() % (input.size() + 1));
  }
  if (input.empty()) input.push_back('\0');
}

}  // namespace

int main(int count, char** arguments) {
  uint32_t rounds = count > 1 ? static_cast<uint32_t>(std::atoi(arguments[1])) : 20000;
  uint32_t first = count > 2 ? static_cast<uint32_t>(std::atoi(arguments[2])) : 0;
  std::vector<std::string> all = seeds();
  for (uint32_t round = first; round < first + rounds; ++round) {
    std::mt19937 random(round);
    std::string input = all[round % all.size()];
    for (uint32_t left = 1 + random() % 8; left > 0; --left) mutate(input, random);
    if (random() % 16 != 0) repair(input);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
  std::printf("%u inputs from %u on, no fault\n", rounds, first);
  return 0;
}
