#include "checkpoint/save.h"

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/load.h"
#include "formats/dcp.h"
#include "formats/item.h"
#include "tokenizer/tokenizer.h"

namespace hearth::checkpoint {

// Gathers the many small parts of an item into large writes; large parts are written directly.
class BufferedWriter {
 public:
  explicit BufferedWriter(File& file) : file_(file) {}
  void write(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) flush();
    if (bytes.size() >= kBufferBytes) return file_.write(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  void flush() {
    if (!buffer_.empty()) file_.write(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 20;
  File& file_;
  std::vector<std::byte> buffer_;
};

namespace {

using Json = nlohmann::ordered_json;

// Drops the file from the page cache: the next read goes to the disk. Only a hint: some file systems keep it.
void forget_cache(const File& file) { ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED); }

void read_back(const Path& path, const std::vector<formats::Item>& items) {
  const File file = File::open_read(path);
  forget_cache(file);
  for (const formats::Item& item : items) {
    if (formats::hash_range(file, item.offset, item.length) == item.checksum) continue;
    throw Error(ExitCode::kHardware,
                fmt::format("{} was written to {} but reads back differently", item.name, path.string()),
                "the disk or the memory is faulty", "save to another disk and check this machine");
  }
}

void write_text(const Path& path, const std::string& text) {
  File file = File::create(path);
  file.write(text);
  file.sync();
  forget_cache(file);
  file.close();
}

// "layers.2" before "layers.10", weights before the optimizer's state. The order does not depend on the number of
// ranks.
bool tensor_order(const std::string& a, const std::string& b) {
  const bool a_state = a.starts_with("optimizer."), b_state = b.starts_with("optimizer.");
  if (a_state != b_state) return b_state;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      size_t i_end = i, j_end = j;
      while (i_end < a.size() && digit(a[i_end])) ++i_end;
      while (j_end < b.size() && digit(b[j_end])) ++j_end;
      if (i_end - i != j_end - j) return i_end - i < j_end - j;
      const int order = a.compare(i, i_end - i, b, j, j_end - j);
      if (order != 0) return order < 0;
      i = i_end;
      j = j_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

// A rank's list in CBOR (RFC 8949): the rank, and an array of these fields for each item. The file's name follows from
// the rank. A value that is no tensor has its name, offset and length only.
Json fields_of(const mesh::TensorInfo& info, const formats::Item& item) {
  return {info.name,      static_cast<int>(info.dtype),
          info.shape,     item.box.offsets,
          item.box.sizes, item.offset,
          item.length,    item.checksum};
}

std::string file_of(int64_t rank) { return fmt::format("__R_{}.distcp", rank); }

formats::Metadata gather(std::span<const std::string> rank_items) {
  formats::Metadata metadata;
  std::map<std::string, formats::StoredTensor, bool (*)(const std::string&, const std::string&)> tensors(tensor_order);
  for (const std::string& bytes : rank_items) {
    const Json list = Json::from_cbor(bytes);
    const std::string file = file_of(list[0].get<int64_t>());
    for (const Json& fields : list[1]) {
      if (fields.size() == 3) {
        metadata.others.push_back(
            {fields[0].get<std::string>(), "bytes", file, fields[1].get<int64_t>(), fields[2].get<int64_t>()});
        continue;
      }
      mesh::TensorInfo info{fields[0].get<std::string>(), static_cast<DType>(fields[1].get<int>()),
                            fields[2].get<std::vector<int64_t>>()};
      formats::StoredTensor& tensor = tensors[info.name];
      if (tensor.items.empty()) tensor.info = info;
      HEARTH_CHECK(tensor.info == info, "ranks disagree on {}", info.name);
      tensor.items.push_back({info.name,
                              {fields[3].get<std::vector<int64_t>>(), fields[4].get<std::vector<int64_t>>()},
                              file,
                              fields[5].get<int64_t>(),
                              fields[6].get<int64_t>(),
                              fields[7].get<uint64_t>()});
    }
  }
  for (auto& [name, tensor] : tensors) {
    std::sort(tensor.items.begin(), tensor.items.end(),
              [](const formats::Item& a, const formats::Item& b) { return a.box.offsets < b.box.offsets; });
    metadata.tensors.push_back(std::move(tensor));
  }
  return metadata;
}

// The pieces are ours: a hole or an overlap is a bug. It is found before the folder gets its final name.
void check_complete(const formats::Metadata& metadata, const Path& folder) {
  for (const formats::StoredTensor& tensor : metadata.tensors) {
    try {
      formats::check_coverage(tensor, {std::vector<int64_t>(tensor.info.shape.size(), 0), tensor.info.shape},
                              folder.string());
    } catch (const Error& e) {
      HEARTH_CHECK(false, "{}", e.what());
    }
  }
}

// Makes `temporary` the final folder. At every moment the old or the new one is on disk; remove_leftovers() removes
// what is left of the old one.
void publish(const Path& temporary, const Path& final_folder) {
  Path aside = final_folder;
  aside += kReplacedSuffix;
  replace_folder(temporary, final_folder, aside);
}

}  // namespace

std::string step_name_of(int64_t step) { return fmt::format("step-{:08}", step); }
Path step_folder(const Path& checkpoints, int64_t step) { return checkpoints / step_name_of(step); }
Path temporary_folder(const Path& checkpoints, int64_t step, int64_t start) {
  return checkpoints / (step_name_of(step) + (start > 0 ? fmt::format(".{}", start) : "") + kTemporarySuffix);
}

void begin_save(const Path& temporary) {
  remove_tree(temporary);
  make_folders(temporary);
}

struct RankFile::State {
  int64_t rank;
  std::string name;
  File file;
  BufferedWriter writer{file};
  std::vector<formats::Item> items{};
  Json list = Json::array();
  int64_t offset = 0;

  std::pair<int64_t, uint64_t> append(formats::ZipWriter& zip);
};

RankFile::RankFile(const Path& temporary, int64_t rank)
    : state_(std::unique_ptr<State>(new State{rank, file_of(rank), File::create(temporary / file_of(rank))})) {}
RankFile::~RankFile() = default;
RankFile::RankFile(RankFile&&) noexcept = default;

// Appends the archive; returns its length and its checksum.
std::pair<int64_t, uint64_t> RankFile::State::append(formats::ZipWriter& zip) {
  StreamingHash hash;
  int64_t length = 0;
  for (const std::span<const std::byte> part : zip.pieces()) {
    hash.update(part);
    writer.write(part);
    length += static_cast<int64_t>(part.size());
  }
  offset += length;
  return {length, hash.digest_64()};
}

void RankFile::add(const mesh::TensorPiece& piece) {
  HEARTH_CHECK(piece.box.numel() > 0, "{}: an empty piece", piece.info.name);
  State& s = *state_;
  formats::ZipWriter zip;
  formats::add_tensor(zip, piece.info.dtype, piece.box.sizes, piece.bytes);
  const int64_t offset = s.offset;
  const auto [length, checksum] = s.append(zip);
  s.items.push_back({piece.info.name, piece.box, s.name, offset, length, checksum});
  s.list.push_back(fields_of(piece.info, s.items.back()));
}

void RankFile::add(const std::string& name, const formats::Scalar& value) {
  State& s = *state_;
  formats::ZipWriter zip;
  formats::add_scalar(zip, value);
  const int64_t offset = s.offset;
  const auto [length, checksum] = s.append(zip);
  s.items.push_back({name, {}, s.name, offset, length, checksum});
  s.list.push_back({name, offset, length});
}

std::string RankFile::finish() {
  State& s = *state_;
  s.writer.flush();
  s.file.sync();
  const Path path = s.file.path();
  s.file.close();
  read_back(path, s.items);
  std::string bytes;
  Json::to_cbor({s.rank, std::move(s.list)}, bytes);
  return bytes;
}

std::string write_rank_file(const Path& temporary, int64_t rank, std::span<const mesh::TensorPiece> pieces,
                            const std::stop_token& stop) {
  if (pieces.empty()) {
    std::string bytes;
    Json::to_cbor({rank, Json::array()}, bytes);
    return bytes;
  }
  RankFile file(temporary, rank);
  for (const mesh::TensorPiece& piece : pieces) {
    if (stop.stop_requested())
      throw Error(ExitCode::kHardware,
                  fmt::format("{} is not written: the training has ended", (temporary / file_of(rank)).string()));
    file.add(piece);
  }
  return file.finish();
}

void write_metadata(const Path& folder, std::span<const std::string> rank_items) {
  const formats::Metadata metadata = gather(rank_items);
  check_complete(metadata, folder);
  write_text(folder / kMetadataFile, formats::format_metadata(metadata));
  sync_folder(folder);
}

void commit(const Path& temporary, const Path& final_folder, std::span<const std::string> rank_items, Manifest manifest,
            const std::function<void()>& before_rename) {
  const formats::Metadata metadata = gather(rank_items);
  check_complete(metadata, temporary);
  const std::string metadata_text = formats::format_metadata(metadata);
  manifest.metadata_length = static_cast<int64_t>(metadata_text.size());
  manifest.metadata_checksum = xxh3_64(metadata_text);
  manifest.items.clear();
  for (const formats::StoredTensor& tensor : metadata.tensors)
    manifest.items.insert(manifest.items.end(), tensor.items.begin(), tensor.items.end());

  HEARTH_CHECK(manifest.tokenizer_file.empty() || tokenizer::is_kept_name(manifest.tokenizer));
  if (!manifest.tokenizer_file.empty()) write_text(temporary / manifest.tokenizer, manifest.tokenizer_file);
  write_text(temporary / kMetadataFile, metadata_text);
  write_text(temporary / kManifestFile, format_manifest(manifest));
  sync_folder(temporary);
  // Reads both files back and checks the size of every rank's file; the ranks have compared the contents.
  Reader::open(temporary);
  if (before_rename) before_rename();
  publish(temporary, final_folder);
}

}  // namespace hearth::checkpoint
