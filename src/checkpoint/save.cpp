// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save.h"

#include <fcntl.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/direct_io.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/object_file.h"
#include "base/program.h"
#include "checkpoint/load.h"
#include "checkpoint/read_back.h"
#include "formats/dcp.h"
#include "formats/item.h"
#include "plan/tensor_names.h"
#include "tokenizer/tokenizer.h"

namespace hearth::checkpoint {

namespace {

using Json = nlohmann::ordered_json;

// Drops the file from the page cache: the next read goes to the disk. Only a hint: some file systems keep it.
void forget_cache(const File& file) {
  if (file.descriptor() >= 0) ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
}

std::vector<uint64_t> checksums_of(const Path& object, const std::vector<formats::Item>& items) {
  const File file = File::open_read(object);
  std::vector<uint64_t> found;
  for (const formats::Item& item : items) {
    file.read_ahead(item.offset, item.length);
    found.push_back(formats::hash_range(file, item.offset, item.length));
  }
  return found;
}

// `found`: the checksums of the items as they were read from the disk.
void compare(const Path& path, const std::vector<formats::Item>& items, const std::vector<uint64_t>& found) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (found.at(i) == items[i].checksum) continue;
    throw Error(ExitCode::kHardware,
                fmt::format("{} was written to {} but reads back differently", items[i].name, path.string()),
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
  const bool a_state = plan::is_optimizer_state(a), b_state = plan::is_optimizer_state(b);
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

// A rank's list in CBOR (RFC 8949): its file's name, and an array of these fields for each item. A value that is no
// tensor has its name, offset and length only.
Json fields_of(const mesh::TensorInfo& info, const formats::Item& item) {
  return {info.name,      static_cast<int>(info.dtype),
          info.shape,     item.box.offsets,
          item.box.sizes, item.offset,
          item.length,    item.checksum};
}

std::string as_cbor(const std::string& file, Json list) {
  std::string bytes;
  Json::to_cbor({file, std::move(list)}, bytes);
  return bytes;
}

// The items of all ranks. The pieces are ours: a hole or an overlap is a bug. It is found before `folder` gets its
// final name.
formats::Metadata gather(std::span<const std::string> rank_items, const Path& folder) {
  formats::Metadata metadata;
  std::map<std::string, formats::StoredTensor, bool (*)(const std::string&, const std::string&)> tensors(tensor_order);
  for (const std::string& bytes : rank_items) {
    const Json list = Json::from_cbor(bytes);
    const auto file = list[0].get<std::string>();
    note_progress();
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
    std::ranges::sort(
        tensor.items, {}, [](const formats::Item& item) -> auto& { return item.box.offsets; });
    try {
      formats::check_coverage(tensor, {std::vector<int64_t>(tensor.info.shape.size(), 0), tensor.info.shape},
                              folder.string());
    } catch (const Error& e) {
      HEARTH_CHECK(false, "{}", e.what());
    }
    metadata.tensors.push_back(std::move(tensor));
  }
  return metadata;
}

// Makes `temporary` the final folder. At every moment the old or the new one is on disk; remove_leftovers() removes
// what is left of the old one.
void publish(const Path& temporary, const Path& final_folder) {
  replace_folder(temporary, final_folder, final_folder.native() + kReplacedSuffix);
}

// The last object makes the folder a checkpoint. If it, or what it names, does not read back, it is taken away again.
void publish_objects(const Path& folder, const std::string& manifest_text) {
  put_new_object(folder / kManifestFile, manifest_text);
  try {
    Reader::open(folder);
  } catch (...) {
    remove_file(folder / kManifestFile);
    throw;
  }
}

}  // namespace

std::string rank_file_name(int64_t rank) { return fmt::format("__R_{}.distcp", rank); }

void begin_save(const Path& temporary) {
  if (is_object(temporary)) return;
  remove_tree(temporary);
  make_folders(temporary);
}

std::string list_of_items(const std::string& file, std::span<const ItemOf> items) {
  Json list = Json::array();
  for (const ItemOf& of : items) list.push_back(fields_of(of.info, of.item));
  return as_cbor(file, std::move(list));
}

struct RankFile::State {
  std::string name;
  DirectWriter writer;
  std::optional<ReadBack> read_back{};  // not in a store: an object can be read when it is whole
  std::vector<formats::Item> items{};
  Json list = Json::array();
  int64_t offset = 0;
  bool is_whole = false;

  const formats::Item& append(const std::string& item, const mesh::Box& box, formats::ZipWriter& zip);
};

RankFile::RankFile(const Path& temporary, int64_t rank) {
  const std::string name = rank_file_name(rank);
  state_ = std::unique_ptr<State>(new State{name, DirectWriter(File::create(temporary / name))});
  if (!is_object(temporary)) state_->read_back.emplace(state_->writer.file());
}

// A file that is not whole takes room, and on a full disk the next start needs it.
RankFile::~RankFile() {
  if (state_ == nullptr || state_->is_whole || is_object(state_->writer.file().path())) return;
  std::error_code ignored;
  std::filesystem::remove(state_->writer.file().path(), ignored);
}
RankFile::RankFile(RankFile&&) noexcept = default;

// Appends the archive.
const formats::Item& RankFile::State::append(const std::string& item, const mesh::Box& box, formats::ZipWriter& zip) {
  const std::vector<std::span<const std::byte>> parts = zip.pieces();
  int64_t length = 0;
  for (const std::span<const std::byte> part : parts) length += static_cast<int64_t>(part.size());
  if (read_back) read_back->begin_item(length);
  StreamingHash hash;
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {  // a little at a time, so that the disk writes meanwhile
      const std::span<const std::byte> now = part.first(std::min(part.size(), DirectWriter::kBufferBytes));
      hash.update(now);
      writer.write(now);
      if (read_back) read_back->written(writer.written());
      part = part.subspan(now.size());
    }
  }
  items.push_back({item, box, name, offset, length, hash.digest_64()});
  offset += length;
  return items.back();
}

void RankFile::add(const mesh::TensorPiece& piece) {
  HEARTH_CHECK(piece.box.numel() > 0, "{}: an empty piece", piece.info.name);
  formats::ZipWriter zip;
  formats::add_tensor(zip, piece.info.dtype, piece.box.sizes, piece.bytes);
  state_->list.push_back(fields_of(piece.info, state_->append(piece.info.name, piece.box, zip)));
}

void RankFile::add(const std::string& name, const formats::Scalar& value) {
  formats::ZipWriter zip;
  formats::add_scalar(zip, value);
  const formats::Item& item = state_->append(name, {}, zip);
  state_->list.push_back({name, item.offset, item.length});
}

std::string RankFile::finish() {
  State& s = *state_;
  s.writer.flush();
  std::vector<uint64_t> found;
  if (s.read_back) {
    s.read_back->written(s.writer.written());
    found = s.read_back->finish();
  }
  const Path path = s.writer.file().path();
  s.writer.file().close();
  compare(path, s.items, s.read_back ? found : checksums_of(path, s.items));
  s.is_whole = true;
  return as_cbor(s.name, std::move(s.list));
}

void check_stop(const Path& temporary, const std::stop_token& stop) {
  if (stop.stop_requested())
    throw Error(ExitCode::kHardware, fmt::format("{} is not complete: the training has ended", temporary.string()));
}

std::string write_rank_file(const Path& temporary, int64_t rank, std::span<const mesh::TensorPiece> pieces,
                            const std::stop_token& stop) {
  if (pieces.empty()) return as_cbor(rank_file_name(rank), Json::array());
  RankFile file(temporary, rank);
  for (const mesh::TensorPiece& piece : pieces) {
    check_stop(temporary, stop);
    file.add(piece);
  }
  return file.finish();
}

void write_metadata(const Path& folder, std::span<const std::string> rank_items) {
  write_text(folder / kMetadataFile, formats::format_metadata(gather(rank_items, folder)));
  sync_folder(folder);
}

void commit(const Path& temporary, const Path& final_folder, std::span<const std::string> rank_items, Manifest manifest,
            const std::function<void()>& before_rename) {
  const formats::Metadata metadata = gather(rank_items, temporary);
  const std::string metadata_text = formats::format_metadata(metadata);
  manifest.metadata_length = static_cast<int64_t>(metadata_text.size());
  manifest.metadata_checksum = xxh3_64(metadata_text);
  manifest.items.clear();
  for (const formats::StoredTensor& tensor : metadata.tensors)
    manifest.items.insert(manifest.items.end(), tensor.items.begin(), tensor.items.end());

  HEARTH_CHECK(manifest.tokenizer_file.empty() || tokenizer::is_kept_name(manifest.tokenizer));
  if (!manifest.tokenizer_file.empty()) write_text(temporary / manifest.tokenizer, manifest.tokenizer_file);
  write_text(temporary / kMetadataFile, metadata_text);
  const std::string manifest_text = format_manifest(manifest);
  if (is_object(final_folder)) {
    if (before_rename) before_rename();
    publish_objects(final_folder, manifest_text);
    return;
  }
  write_text(temporary / kManifestFile, manifest_text);
  sync_folder(temporary);
  // Reads both files back and checks the size of every rank's file; the ranks have compared the contents.
  Reader::open(temporary);
  if (before_rename) before_rename();
  publish(temporary, final_folder);
}

}  // namespace hearth::checkpoint
