// Memory that runs out at any moment: an update either fails before it begins or is done, and nothing else is lost.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "fuzz.hpp"

using namespace palio;

namespace {

long left = -1;  // allocations until one fails; negative: none does

// Soon, or after a while: an update that divides a bucket asks for memory many times.
long sooner_or_later(std::mt19937& random) { return static_cast<long>(random() % (1u << random() % 9)); }

struct Kept {
  Index::Id id;
  std::vector<Predicate> predicates;
  std::vector<char> bytes;

  bool matches(const Event& event) const {
    for (const Predicate& predicate : predicates) {
      if (!holds(predicate, event.find(predicate.name), bytes.data())) return false;
    }
    return true;
  }
};

void expect(bool condition) {
  if (!condition) std::abort();
}

// Adds a filter while memory runs out. Names are held by a filter of all of them, so their numbers stay.
void add(Index& index, std::vector<Kept>& kept, std::mt19937& random, const Compiled& filter) {
  kept.push_back({0, filter.predicates, filter.bytes});
  size_t before = index.size();
  left = sooner_or_later(random);
  try {
    kept.back().id = index.add(filter);
  } catch (const std::bad_alloc&) {
    kept.pop_back();
  }
  left = -1;
  expect(index.size() == kept.size() && (index.size() == before || index.size() == before + 1));
}

void remove(Index& index, std::vector<Kept>& kept, std::mt19937& random) {
  std::swap(kept[1 + random() % (kept.size() - 1)], kept.back());
  left = sooner_or_later(random);
  index.remove(kept.back().id);  // cannot fail
  left = -1;
  kept.pop_back();
}

// Matches while memory runs out, and then again: the second answer must be right.
void check(const Index& index, const std::vector<Kept>& kept, const Event& event, Workspace& workspace,
           std::mt19937& random) {
  left = sooner_or_later(random);
  try {
    workspace.run(index.view(), false);
  } catch (const std::bad_alloc&) {
  }
  left = -1;
  std::vector<uint64_t> expected, found;
  for (const Kept& each : kept) {
    if (each.matches(event)) expected.push_back(each.id);
  }
  std::sort(expected.begin(), expected.end());
  workspace.run(index.view(), false);
  workspace.visit([&](auto begin, auto end) { found.assign(begin, end); });
  expect(found == expected);
}

}  // namespace

void* operator new(size_t size) {
  if (left >= 0 && left-- == 0) throw std::bad_alloc();
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Regions of memory grow by this; it stands in for the one of the C library.
extern "C" void* mremap(void* old, size_t old_size, size_t size, int flags, ...) noexcept {
  if (left >= 0 && left-- == 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mremap, old, old_size, size, flags, nullptr));
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::seed_seq words(data, data + size);
  std::mt19937 random(words);
  Index index;
  std::vector<Kept> kept;
  Compiled compiled;
  Workspace workspace(index.view().hasher);
  std::vector<Constraint> all;
  for (int n = 0; n < 6; ++n) all.push_back({index.name_id("n" + std::to_string(n)), Operator::any, all_types, {}});
  compiled.compile(all, index.view().hasher);
  kept.push_back({index.add(compiled), compiled.predicates, compiled.bytes});
  size_t most = 20 + random() % 400;
  bool excludes_little = random() % 2 == 0;
  for (size_t i = 0; i < most; ++i) {
    compiled.compile(fuzz::any_constraints(index, random, excludes_little), index.view().hasher);
    add(index, kept, random, compiled);
    if (random() % 4 == 0 && kept.size() > 1) remove(index, kept, random);
    if (i % 16 != 0) continue;
    Event& event = workspace.matcher.event;
    event.clear();
    for (NameId n = 0; n < 6; ++n) {
      const uint32_t chance = random() % 8;
      if (chance > 1) event.add(n, fuzz::any_value(random));
      if (chance == 1) event.add_unreadable(n);
    }
    check(index, kept, event, workspace, random);
    index.observe(event);
    left = sooner_or_later(random);
    try {
      index.reconsider(16);
    } catch (const std::bad_alloc&) {
    }
    left = -1;
  }
  return 0;
}

std::vector<std::string> seeds() { return {"memory"}; }

void repair(std::string&) {}
