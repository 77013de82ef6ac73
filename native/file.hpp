// Indexes as files: the same structures as in memory, behind a header, so that a file is mapped and used as it is.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
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
  uint32_t level;
  Ref root;
  uint64_t has_generations;
  Census census;
  uint64_t content_hash;
  uint64_t header_hash;  // of all before it
};

constexpr char file_magic[8] = {'P', 'A', 'L', 'I', 'O', 'I', 'D', 'X'};
constexpr uint32_t file_version = 1;
constexpr uint32_t byte_order_mark = 0x01020304;
constexpr size_t file_alignment = 4096;

inline uint64_t hash_bytes(const void* data, size_t size) {
  return hash_text({static_cast<const char*>(data), size});
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
  header.level = view.table.level;
  header.directory_offset = header.table_offset + aligned(view.table.buckets * sizeof(Bucket));
  header.slots = view.slots;
  header.file_size = header.directory_offset + aligned(view.slots * sizeof(Place));
  header.filters = view.filters;
  header.nodes = view.nodes;
  header.root = view.root;
  header.has_generations = view.has_generations;
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

// A file mapped for reading. Only its header is looked at when it is opened; whatever lies behind it is checked when a
// match comes to it, because a file may say anything.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::system_error(errno, std::generic_category(), path);
    struct stat about;
    bool known = fstat(file, &about) == 0;
    size_ = known ? static_cast<size_t>(about.st_size) : 0;
    bool is_file = known && S_ISREG(about.st_mode);
    if (is_file && size_ >= sizeof(FileHeader)) data_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    int problem = errno;
    close(file);
    if (!is_file) throw FileFailure("not a regular file");
    if (size_ < sizeof(FileHeader)) throw FileFailure("too short to be an index");
    if (data_ == MAP_FAILED) throw std::system_error(problem, std::generic_category(), path);
    try {
      check();
    } catch (...) {
      munmap(data_, size_);
      throw;
    }
  }

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { munmap(data_, size_); }

  const View& view() const { return view_; }
  const Census& census() const { return static_cast<const FileHeader*>(data_)->census; }
  const void* data() const { return data_; }
  size_t size() const { return size_; }

  // Whether the contents are what was written; reads all of the file.
  bool is_whole() const {
    const FileHeader& header = *static_cast<const FileHeader*>(data_);
    uint64_t hash = hash_bytes(at(header.arena_offset), header.arena_size) ^
                    hash_bytes(at(header.table_offset), header.buckets * sizeof(Bucket)) ^
                    hash_bytes(at(header.directory_offset), header.slots * sizeof(Place));
    return hash == header.content_hash;
  }

 private:
  const uint8_t* at(uint64_t offset) const { return static_cast<const uint8_t*>(data_) + offset; }

  void check() {
    const FileHeader& header = *static_cast<const FileHeader*>(data_);
    if (std::memcmp(header.magic, file_magic, sizeof file_magic) != 0) throw FileFailure("not an index of Palio");
    if (header.byte_order != byte_order_mark) throw FileFailure("written on a machine with another byte order");
    if (header.version != file_version) {
      throw FileFailure("version " + std::to_string(header.version) + " of the format; this release reads version " +
                        std::to_string(file_version) + ", so dump the index again with it");
    }
    if (header.header_hash != hash_bytes(&header, offsetof(FileHeader, header_hash))) {
      throw FileFailure("damaged: its header does not add up");
    }
    if (header.file_size != size_) throw FileFailure("truncated or extended: its size is not what its header says");
    bool sound = fits(header.arena_offset, header.arena_size, 1) &&
                 fits(header.table_offset, header.buckets, sizeof(Bucket)) &&
                 fits(header.directory_offset, header.slots, sizeof(Place)) && header.level < 32 &&
                 header.buckets >= uint64_t{1} << header.level && header.buckets <= uint64_t{2} << header.level &&
                 header.filters <= header.slots && header.nodes <= header.arena_size / granule;
    if (!sound) throw FileFailure("damaged: its header contradicts itself");
    view_.arena = at(header.arena_offset);
    view_.arena_size = header.arena_size;
    view_.buckets = reinterpret_cast<const Bucket*>(at(header.table_offset));
    view_.table.buckets = header.buckets;
    view_.table.items = header.items;
    view_.table.level = header.level;
    view_.places = reinterpret_cast<const Place*>(at(header.directory_offset));
    view_.slots = header.slots;
    view_.filters = header.filters;
    view_.nodes = header.nodes;
    view_.root = header.root;
    view_.has_generations = header.has_generations != 0;
  }

  bool fits(uint64_t offset, uint64_t count, uint64_t each) const {
    return offset % file_alignment == 0 && offset <= size_ && count <= (size_ - offset) / each;
  }

  void* data_ = MAP_FAILED;
  size_t size_ = 0;
  View view_;
};

// Writes beside the target and renames, so that whoever has the old file open keeps it whole. The content comes from
// produce(put), where put takes data and size.
template <class Produce>
void write_file(const std::string& path, Produce produce) {
  std::string beside = path + ".part" + std::to_string(getpid());
  int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw std::system_error(errno, std::generic_category(), beside);
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
