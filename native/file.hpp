// Indexes as files: the same structures as in memory, behind a header, so that a file is mapped and used as it is.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

#include "index.hpp"

namespace palio {

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t byte_order;
  uint64_t file_size;
  uint64_t arena_offset, arena_size;
  uint64_t table_offset, buckets, items;
  uint64_t directory_offset, slots;
  uint64_t filters, nodes;
  uint64_t mask;
  uint64_t root;
  uint64_t has_generations;
  uint64_t seed;
  Census census;
  uint64_t content_hash;
  uint64_t header_hash;  // of all before it
};

constexpr char file_magic[8] = {'P', 'A', 'L', 'I', 'O', 'I', 'D', 'X'};
constexpr uint32_t file_version = 2;
constexpr uint32_t byte_order_mark = 0x01020304;
constexpr size_t file_alignment = 4096;

inline uint64_t hash_bytes(const void* data, size_t size) {
  return Hasher().text({static_cast<const char*>(data), size});
}

// Writes an index piece by piece: put(data, size).
template <class Put>
void write_index(const Index& index, Put put) {
  View view = index.view();
  const Storage& storage = index.storage();
  auto aligned = [](uint64_t size) { return (size + file_alignment - 1) / file_alignment * file_alignment; };
  FileHeader header{};
  std::memcpy(header.magic, file_magic, sizeof file_magic);
  header.version = file_version;
  header.byte_order = byte_order_mark;
  header.arena_offset = file_alignment;
  header.arena_size = view.arena_size;
  header.table_offset = header.arena_offset + aligned(header.arena_size);
  header.buckets = view.table.buckets;
  header.items = view.table.items;
  header.mask = view.table.mask;
  header.directory_offset = header.table_offset + aligned(view.table.buckets * sizeof(Bucket));
  header.slots = view.slots;
  header.file_size = header.directory_offset + aligned(view.slots * sizeof(Place));
  header.filters = view.filters;
  header.nodes = view.nodes;
  header.root = view.root;
  header.has_generations = view.has_generations;
  header.seed = view.hasher.seed();
  header.census = index.census();
  const Region* regions[] = {&storage.arena(), &storage.table(), &storage.directory()};
  for (const Region* region : regions) header.content_hash ^= hash_bytes(region->data(), region->size());
  header.header_hash = hash_bytes(&header, offsetof(FileHeader, header_hash));
  const char padding[file_alignment] = {};
  auto put_aligned = [&](const void* data, size_t size) {
    if (size != 0) put(data, size);
    size_t rest = aligned(size) - size;
    if (rest != 0) put(padding, rest);
  };
  put_aligned(&header, sizeof header);
  for (const Region* region : regions) put_aligned(region->data(), region->size());
}

// What an index needs to know of a file of its own kind. Only the header is looked at; whatever lies behind it is checked
// when a match comes to it, because a file may say anything.
inline View view_of_file(const uint8_t* data, size_t size) {
  if (size < sizeof(FileHeader)) throw FileFailure("too short to be an index");
  FileHeader header;
  std::memcpy(&header, data, sizeof header);
  if (std::memcmp(header.magic, file_magic, sizeof file_magic) != 0) throw FileFailure("not an index of Palio");
  if (header.byte_order != byte_order_mark) throw FileFailure("written on a machine with another byte order");
  if (header.version != file_version) {
    throw FileFailure("version " + std::to_string(header.version) + " of the format; this release reads version " +
                      std::to_string(file_version) + ", so dump the index again with it");
  }
  if (header.header_hash != hash_bytes(&header, offsetof(FileHeader, header_hash))) {
    throw FileFailure("damaged: its header does not add up");
  }
  if (header.file_size != size) throw FileFailure("truncated or extended: its size is not what its header says");
  auto fits = [&](uint64_t offset, uint64_t count, uint64_t each) {
    return offset % file_alignment == 0 && offset <= size && count <= (size - offset) / each;
  };
  bool sound = fits(header.arena_offset, header.arena_size, 1) &&
               fits(header.table_offset, header.buckets, sizeof(Bucket)) &&
               fits(header.directory_offset, header.slots, sizeof(Place)) && header.root <= 0xFFFFFFFF &&
               header.mask <= 0xFFFFFFFF && (header.mask & (header.mask + 1)) == 0 &&
               header.buckets > header.mask >> 1 &&
               header.filters <= header.slots && header.nodes <= header.arena_size / granule;
  if (!sound) throw FileFailure("damaged: its header contradicts itself");
  View view{Hasher(header.seed)};
  view.arena = data + header.arena_offset;
  view.arena_size = header.arena_size;
  view.buckets = reinterpret_cast<const Bucket*>(data + header.table_offset);
  view.table = {header.buckets, header.items, header.mask};
  view.places = reinterpret_cast<const Place*>(data + header.directory_offset);
  view.slots = header.slots;
  view.filters = header.filters;
  view.nodes = header.nodes;
  view.root = static_cast<Ref>(header.root);
  view.has_generations = header.has_generations != 0;
  return view;
}

// Whether the contents are what was written; reads all of the file.
inline bool is_whole_file(const View& view, const void* data) {
  uint64_t content = hash_bytes(view.arena, view.arena_size) ^
                     hash_bytes(view.buckets, view.table.buckets * sizeof(Bucket)) ^
                     hash_bytes(view.places, view.slots * sizeof(Place));
  return content == static_cast<const FileHeader*>(data)->content_hash;
}

// A file mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // or a pipe would keep us waiting
    if (file < 0) throw std::system_error(errno, std::generic_category(), path);
    struct stat about;
    bool is_file = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    size_ = is_file ? static_cast<size_t>(about.st_size) : 0;
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    int problem = errno;
    close(file);
    if (!is_file) throw FileFailure("not a regular file");
    if (size_ == 0) throw FileFailure("too short to be an index");
    if (data_ == MAP_FAILED) throw std::system_error(problem, std::generic_category(), path);
    try {
      view_ = view_of_file(static_cast<const uint8_t*>(data_), size_);
    } catch (...) {
      munmap(data_, size_);
      throw;
    }
  }

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { munmap(data_, size_); }

  const View& view() const { return view_; }
  const Census& census() const { return header().census; }
  const void* data() const { return data_; }
  size_t size() const { return size_; }

  bool is_whole() const { return is_whole_file(view_, data_); }

 private:
  const FileHeader& header() const { return *static_cast<const FileHeader*>(data_); }

  void* data_ = MAP_FAILED;
  size_t size_ = 0;
  View view_{Hasher()};
};

constexpr int most_attempts = 1000;

// Writes beside the target and renames, so that whoever has the old file open keeps it whole. The content comes from
// produce(put), where put takes data and size.
template <class Produce>
void write_file(const std::string& path, Produce produce) {
  std::string beside;
  int file = -1;
  for (int attempt = 0; file < 0; ++attempt) {  // others may be writing the same file
    beside = path + "." + std::to_string(getpid()) + "-" + std::to_string(attempt);
    file = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && (errno != EEXIST || attempt == most_attempts)) {
      throw std::system_error(errno, std::generic_category(), beside);
    }
  }
  try {
    produce([&](const void* data, size_t size) {
      const char* from = static_cast<const char*>(data);
      while (size > 0) {
        ssize_t written = write(file, from, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw std::system_error(errno, std::generic_category(), beside);
        from += written;
        size -= static_cast<size_t>(written);
      }
    });
    if (fsync(file) != 0) throw std::system_error(errno, std::generic_category(), beside);
  } catch (...) {
    close(file);
    unlink(beside.c_str());
    throw;
  }
  close(file);
  if (rename(beside.c_str(), path.c_str()) != 0) {
    int problem = errno;
    unlink(beside.c_str());
    throw std::system_error(problem, std::generic_category(), path);
  }
}

}  // namespace palio
