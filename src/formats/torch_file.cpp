// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_file.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "formats/lfs_pointer.h"
#include "formats/pickle.h"
#include "formats/tensor_object.h"

namespace hearth::formats {
namespace {

// A state dict of 1,000 tensors has about 30,000 values.
constexpr PickleLimits kStateDictLimits{
    .max_bytes = int64_t{16} << 20, .max_text = int64_t{1} << 20, .max_values = int64_t{1} << 20, .opaque = true};

std::vector<ZipMember> directory(const File& file, const std::string& origin) {
  refuse_lfs_pointer(file, origin);
  return read_zip_directory(file, 0, file.size_bytes(), origin);
}

// A name may repeat the top folder of the archive: it is left out.
class Members {
 public:
  Members(const File& file, const std::string& origin) : members_(directory(file, origin)) {
    for (const ZipMember& member : members_) {
      const size_t slash = member.name.find('/');
      if (slash != std::string::npos) by_name_.emplace(std::string_view(member.name).substr(slash + 1), &member);
    }
  }
  const ZipMember* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::vector<ZipMember> members_;
  std::unordered_map<std::string_view, const ZipMember*> by_name_;
};

bool is_tensor(const Pickle& pickle, PickleValue value) {
  if (pickle.kind(value) != PickleKind::kObject) return false;
  return pickle.object(value, "a value").name.starts_with("torch._utils._rebuild_");
}

// Source: torch_xla/utils/serialization.py, class TensorReference, whose state is {"tid": id}.
std::optional<int64_t> reference_id(const Pickle& pickle, PickleValue value) {
  if (pickle.kind(value) != PickleKind::kObject) return std::nullopt;
  const Pickle::Object object = pickle.object(value, "a value");
  PickleValue id = 0;
  if (!object.name.ends_with("TensorReference") || !object.has_state ||
      pickle.kind(object.state) != PickleKind::kDict || !pickle.find_key(object.state, "tid", id))
    return std::nullopt;
  return pickle.integer(id, "a reference to a tensor");
}

// A value that is no tensor. A call of a class or a function is named, and it does not run.
std::string what_it_is(const Pickle& pickle, PickleValue value) {
  if (pickle.kind(value) != PickleKind::kObject) return "not a tensor";
  return fmt::format("not a tensor but a call of {}, which does not run here", pickle.object(value, "a value").name);
}

// A dict by the tensors' names; or with `key`, a dict whose only value is that dict.
template <class PushValue>
void push_by_name(PickleWriter& pickle, const std::string& key, std::span<const mesh::TensorInfo> tensors,
                  const PushValue& push_value) {
  const auto push_tensors = [&] {
    for (const mesh::TensorInfo& info : tensors) {
      pickle.string(info.name);
      push_value(info);
    }
  };
  if (key.empty()) return pickle.dict(push_tensors);
  pickle.dict([&] {
    pickle.string(key);
    pickle.dict(push_tensors);
  });
}

}  // namespace

TorchFile read_torch_file(const File& file, const std::string& origin, const std::string& key) {
  const Members members(file, origin);
  const Pickle pickle =
      read_data_pkl(file, members.find("byteorder"), members.find("data.pkl"), kStateDictLimits, origin);
  TorchFile found;
  std::unordered_set<std::string> names;
  const PickleValue root = key.empty() ? pickle.root() : pickle.at(pickle.root(), key, "the file's dict");
  const auto entries = pickle.pairs(root, key.empty() ? "the file's content" : key);
  for (size_t i = 0; i < entries.size(); i += 2) {
    std::string name(pickle.text(entries[i], "a key of the file's dict"));
    if (!names.insert(name).second) throw damaged(fmt::format("{}: {} is there twice", origin, name));
    const std::string where = fmt::format("{}: {}", origin, name);
    if (is_tensor(pickle, entries[i + 1])) {
      const TensorObject tensor = read_tensor_object(pickle, entries[i + 1], where);
      const ZipMember* data = members.find("data/" + tensor.storage);
      found.tensors.push_back({std::move(name), place_tensor(tensor, data, where)});
    } else if (const std::optional<int64_t> id = reference_id(pickle, entries[i + 1])) {
      found.references.push_back({std::move(name), *id});
    } else {
      found.others.push_back({std::move(name), what_it_is(pickle, entries[i + 1])});
    }
  }
  return found;
}

TorchTensor read_torch_tensor(const File& file, const std::string& origin) {
  const TorchPickle pickle(file, origin);
  return {{}, pickle.place(pickle.pickle().root(), origin)};
}

TorchPickle::TorchPickle(const File& file, const std::string& origin)
    : members_(directory(file, origin)),
      pickle_(read_data_pkl(file, find_member(members_, "byteorder"), find_member(members_, "data.pkl"),
                            kStateDictLimits, origin)) {}

bool TorchPickle::is_tensor(PickleValue value) const { return formats::is_tensor(pickle_, value); }

std::optional<int64_t> TorchPickle::reference(PickleValue value) const { return reference_id(pickle_, value); }

TensorLayout TorchPickle::place(PickleValue value, const std::string& where) const {
  const TensorObject tensor = read_tensor_object(pickle_, value, where);
  return place_tensor(tensor, find_member(members_, "data/" + tensor.storage), where);
}

bool is_zip(const File& file) {
  std::array<std::byte, 4> start{};
  if (file.size_bytes() < 4) return false;
  file.read_at(0, start);
  return start == std::array{std::byte{'P'}, std::byte{'K'}, std::byte{3}, std::byte{4}};
}

TorchFileWriter::TorchFileWriter(const Path& path, std::span<const mesh::TensorInfo> tensors, const std::string& key)
    : TorchFileWriter(
          path, [&](PickleWriter& pickle, const PushTensor& push) { push_by_name(pickle, key, tensors, push); }) {}

TorchFileWriter::TorchFileWriter(const Path& path, const mesh::TensorInfo& tensor)
    : TorchFileWriter(path, [&](PickleWriter&, const PushTensor& push) { push(tensor); }) {}

TorchFileWriter::TorchFileWriter(const Path& path, const std::function<void(PickleWriter&, const PushTensor&)>& values)
    : zip_(path) {
  PickleWriter pickle;
  values(pickle, [&](const mesh::TensorInfo& info) {
    write_tensor_object(pickle, info.dtype, info.shape, std::to_string(sizes_.size()));
    sizes_.push_back(mesh::Box{{}, info.shape}.numel() * dtype_size(info.dtype));
  });
  add_head(zip_, pickle);
}

void TorchFileWriter::write(std::span<const std::byte> bytes) {
  while (missing_ == 0 && !bytes.empty()) {
    HEARTH_CHECK(next_ < sizes_.size(), "more bytes than the dict's tensors have");
    missing_ = sizes_[next_];
    zip_.begin("archive/data/" + std::to_string(next_++), missing_);
  }
  missing_ -= static_cast<int64_t>(bytes.size());
  HEARTH_CHECK(missing_ >= 0, "the bytes of two tensors came together");
  zip_.write(bytes);
}

void TorchFileWriter::finish() {
  HEARTH_CHECK(missing_ == 0 && next_ == sizes_.size(), "the bytes of {} tensors are missing", sizes_.size() - next_);
  zip_.add("archive/version", "3\n");
  zip_.finish();
}

void push_torch_reference(PickleWriter& pickle, int64_t id) {
  pickle.instance("torch_xla.utils.serialization", "TensorReference", [&] {
    pickle.string("tid");
    pickle.integer(id);
  });
}

void write_torch_references(const Path& path, std::span<const mesh::TensorInfo> tensors, const std::string& key) {
  PickleWriter pickle;
  int64_t id = 0;
  push_by_name(pickle, key, tensors, [&](const mesh::TensorInfo&) { push_torch_reference(pickle, id++); });
  write_torch_pickle(path, pickle);
}

void write_torch_pickle(const Path& path, PickleWriter& pickle) {
  ZipFileWriter zip(path);
  zip.add("archive/data.pkl", pickle.finish());
  zip.add("archive/byteorder", "little");
  zip.add("archive/version", "3\n");
  zip.finish();
}

}  // namespace hearth::formats
