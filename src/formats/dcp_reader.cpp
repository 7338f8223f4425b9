// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/program.h"
#include "formats/dcp.h"
#include "formats/item.h"
#include "formats/pickle.h"
#include "formats/type_names.h"

namespace hearth::formats {
namespace {

constexpr int64_t kMaxOffset = int64_t{1} << 60;
// 5,120 ranks that share 8B parameters have 1.5 million pieces, each of some 20 values and 200 bytes.
constexpr PickleLimits kMetadataLimits{.max_bytes = int64_t{4} << 30, .max_values = int64_t{1} << 28};

// The key of a tensor's piece: its name and offsets.
std::string storage_key(std::string_view name, const std::vector<int64_t>& offsets) {
  return std::string(name) + format_shape(offsets);
}

struct StorageInfo {
  std::string file;
  int64_t offset, length;
};

class MetadataReader {
 public:
  MetadataReader(std::span<const std::byte> bytes, const std::string& origin)
      : p_(Pickle::parse(bytes, origin, kMetadataLimits)) {}

  Metadata run() {
    const PickleValue root = state_of(p_.root(), "the metadata", {"torch.distributed.checkpoint.metadata.Metadata"});
    read_storage(p_.at(root, "storage_data", "the metadata"));
    const auto entries = p_.pairs(p_.at(root, "state_dict_metadata", "the metadata"), "state_dict_metadata");
    for (size_t i = 0; i < entries.size(); i += 2)
      read_entry(std::string(p_.text(entries[i], "a tensor's name")), entries[i + 1]);
    return std::move(metadata_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw damaged(fmt::format("{}: {}", p_.origin(), what)); }

  // The state of an object of one of these classes.
  PickleValue state_of(PickleValue value, const std::string& what,
                       std::initializer_list<std::string_view> classes) const {
    const Pickle::Object object = p_.object(value, what);
    if (std::find(classes.begin(), classes.end(), object.name) == classes.end())
      fail(fmt::format("{} is a {}", what, object.name));
    if (!object.has_state) fail(fmt::format("{} is empty", what));
    return object.state;
  }

  // torch.Size((1, 2)) or a plain tuple; not negative, and the product is checked.
  std::vector<int64_t> size(PickleValue value, const std::string& what) const {
    if (p_.kind(value) == PickleKind::kObject) {
      const Pickle::Object object = p_.object(value, what);
      if (object.name != "torch.Size" || object.arguments.size() != 1) fail(fmt::format("{} is not a size", what));
      value = object.arguments[0];
    }
    const auto values = p_.sequence(value, what);
    if (static_cast<int64_t>(values.size()) > kMaxTensorDimensions)
      fail(fmt::format("{} has {} dimensions", what, values.size()));
    std::vector<int64_t> sizes;
    int64_t product = 1;
    for (const PickleValue v : values) {
      const int64_t n = p_.integer(v, what);
      if (n < 0 || (n > 0 && product > kMaxTensorElements / n)) fail(fmt::format("{} is impossible", what));
      product *= std::max<int64_t>(n, 1);
      sizes.push_back(n);
    }
    return sizes;
  }

  void read_storage(PickleValue storage) {
    const auto items = p_.pairs(storage, "storage_data");
    for (size_t i = 0; i < items.size(); i += 2) {
      note_progress();
      const PickleValue index =
          state_of(items[i], "a storage index", {"torch.distributed.checkpoint.metadata.MetadataIndex"});
      const std::string name(p_.text(p_.at(index, "fqn", "a storage index"), "a name"));
      const PickleValue info =
          state_of(items[i + 1], "the place of " + name, {"torch.distributed.checkpoint.filesystem._StorageInfo"});
      StorageInfo place{std::string(p_.text(p_.at(info, "relative_path", name), "a file name")),
                        p_.integer(p_.at(info, "offset", name), "an offset"),
                        p_.integer(p_.at(info, "length", name), "a length")};
      // A name with a folder in it could lead anywhere on the disk.
      if (place.file.empty() || place.file.find('/') != std::string::npos ||
          place.file.find('\0') != std::string::npos || place.file.starts_with(".."))
        fail(fmt::format("{} is in \"{}\", which is not the name of a file in the same folder", name, place.file));
      if (place.offset < 0 || place.length < 0 || place.offset > kMaxOffset || place.length > kMaxOffset)
        fail(fmt::format("{} lies at bytes {} + {}", name, place.offset, place.length));
      PickleValue transforms;
      if (p_.find_key(info, "transform_descriptors", transforms) && p_.kind(transforms) != PickleKind::kNone &&
          !p_.sequence(transforms, "transform_descriptors").empty()) {
        throw user_error(fmt::format("{}: {} is compressed or transformed", p_.origin(), name), {},
                         "save it again without DCP extensions");
      }
      PickleValue offset;
      // Entries that are not tensors have no offset, or None.
      const bool is_tensor = p_.find_key(index, "offset", offset) && p_.kind(offset) != PickleKind::kNone;
      storage_[is_tensor ? storage_key(name, size(offset, "the offset of " + name)) : name] = std::move(place);
    }
  }

  void read_entry(const std::string& name, PickleValue value) {
    const std::string what = "entry " + name;
    const Pickle::Object object = p_.object(value, what);
    if (object.name == "torch.distributed.checkpoint.metadata.BytesStorageMetadata") {
      const auto place = storage_.find(name);
      metadata_.others.push_back(place == storage_.end() ? OtherEntry{name, "bytes"}
                                                         : OtherEntry{name, "bytes", place->second.file,
                                                                      place->second.offset, place->second.length});
      return;
    }
    const PickleValue state = state_of(value, what, {"torch.distributed.checkpoint.metadata.TensorStorageMetadata"});
    const PickleValue properties = state_of(p_.at(state, "properties", what), what,
                                            {"torch.distributed.checkpoint.metadata.TensorProperties",
                                             "torch.distributed._shard.sharded_tensor.metadata.TensorProperties"});
    const auto fields = p_.sequence(properties, "the properties of " + name);
    if (fields.empty()) fail(fmt::format("{} has no element type", name));
    const std::string_view type = p_.global(fields[0], "the element type of " + name);
    const std::optional<DType> dtype = dtype_of_torch(type);
    if (!dtype) {
      metadata_.others.push_back({name, fmt::format("tensor of {}", type)});
      return;
    }
    StoredTensor tensor;
    tensor.info = {name, *dtype, size(p_.at(state, "size", what), "the size of " + name)};
    for (const PickleValue chunk : p_.sequence(p_.at(state, "chunks", what), "the chunks of " + name))
      tensor.items.push_back(read_chunk(tensor.info, chunk));
    metadata_.tensors.push_back(std::move(tensor));
  }

  Item read_chunk(const mesh::TensorInfo& info, PickleValue value) const {
    note_progress();
    const std::string what = "a chunk of " + info.name;
    const PickleValue state = state_of(value, what, {"torch.distributed.checkpoint.metadata.ChunkStorageMetadata"});
    Item item;
    item.name = info.name;
    item.box = {size(p_.at(state, "offsets", what), what), size(p_.at(state, "sizes", what), what)};
    if (item.box.offsets.size() != info.shape.size() || item.box.sizes.size() != info.shape.size())
      fail(fmt::format("{} has another number of dimensions than the tensor", what));
    for (size_t d = 0; d < info.shape.size(); ++d) {
      if (item.box.sizes[d] > info.shape[d] - item.box.offsets[d]) {
        fail(fmt::format("{} at {} of size {} lies outside of the tensor's shape {}", what,
                         format_shape(item.box.offsets), format_shape(item.box.sizes), format_shape(info.shape)));
      }
    }
    const auto place = storage_.find(storage_key(info.name, item.box.offsets));
    if (place == storage_.end()) fail(fmt::format("{} at {} is stored nowhere", what, format_shape(item.box.offsets)));
    item.file = place->second.file;
    item.offset = place->second.offset;
    item.length = place->second.length;
    return item;
  }

  Pickle p_;
  Metadata metadata_;
  std::unordered_map<std::string, StorageInfo> storage_;
};

}  // namespace

Metadata parse_metadata(std::span<const std::byte> bytes, const std::string& origin) {
  return MetadataReader(bytes, origin).run();
}

std::string format_shape(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "]";
}

}  // namespace hearth::formats
