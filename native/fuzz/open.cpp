// Hostile files: a match against whatever a file says ends, within bounds, or with a failure; so does reading its filters.
#include "fuzz.hpp"
#include "reread.hpp"

using namespace palio;

namespace {

// Whatever can be read as filters goes into another index, which must be able to bear it.
void add_all(const View& view) {
  FilterSource source(view);
  Index index(Hasher(7));
  Compiled filter;
  size_t left = 500;
  for (Slot slot : source.slots()) {
    if (left-- == 0) return;
    source.read(slot, filter);
    source.add_to(index, filter);
  }
  Workspace workspace(index.view().hasher);
  std::mt19937 random(2);
  for (NameId n = 0; n < 6; ++n) workspace.matcher.event.add(n, fuzz::any_value(random));
  workspace.run(index.view(), false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Copied to an address like that of a mapped file; the sanitizer guards its end.
  std::vector<uint64_t> aligned((size + 15) / 8);
  uint8_t* begin = reinterpret_cast<uint8_t*>(aligned.data());
  begin += reinterpret_cast<uintptr_t>(begin) % 16;
  std::memcpy(begin, data, size);
  try {
    View view = view_of_file(begin, size);
    // Each part in memory of its own, so that the sanitizer guards its end too.
    std::unique_ptr<uint8_t[]> arena(new uint8_t[view.arena_size]);
    std::unique_ptr<Bucket[]> buckets(new Bucket[view.table.buckets]);
    std::unique_ptr<Place[]> places(new Place[view.slots]);
    std::copy_n(view.arena, view.arena_size, arena.get());
    std::copy_n(view.buckets, view.table.buckets, buckets.get());
    std::copy_n(view.places, view.slots, places.get());
    view.arena = arena.get();
    view.buckets = buckets.get();
    view.places = places.get();
    Workspace workspace(view.hasher);
    std::mt19937 random(1);
    for (int i = 0; i < 8; ++i) {
      workspace.matcher.event.clear();
      for (int n = 0; n < 6; ++n) {
        const NameObject* known = view.find_name("n" + std::to_string(n));
        if (known != nullptr && random() % 4 != 0) workspace.matcher.event.add(known->id, fuzz::any_value(random));
      }
      workspace.run(view, false);
    }
    add_all(view);
  } catch (const FileFailure&) {
  }
  return 0;
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (size_t filters : {0, 5, 40, 400, 3000, 301, 901}) {
    std::mt19937 random(static_cast<unsigned>(filters));
    Index index(Hasher{filters});
    fuzz::fill(index, random, filters, filters % 2 == 1);
    std::string file;
    write_index(index, [&](const void* data, size_t size) { file.append(static_cast<const char*>(data), size); });
    all.push_back(file);
  }
  return all;
}

void repair(std::string& input) {
  if (input.size() < sizeof(FileHeader)) return;
  FileHeader header;
  std::memcpy(&header, input.data(), sizeof header);
  header.file_size = input.size();
  header.header_hash = hash_bytes(&header, offsetof(FileHeader, header_hash));
  std::memcpy(input.data(), &header, sizeof header);
}
