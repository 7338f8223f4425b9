#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "formats/dcp.h"
#include "formats/pickle.h"

namespace hearth::formats {
namespace {

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";

// An instance of a class, without its state: the caller adds the state and calls build().
void instance(PickleWriter& p, std::string_view module, std::string_view name) {
  p.global(module, name);
  p.empty_tuple();
  p.new_object();
}

// torch.float32, strided, no gradient, contiguous, not pinned.
void write_properties(PickleWriter& p, DType dtype) {
  instance(p, kMetadataModule, "TensorProperties");
  p.mark();
  p.global("torch", dtype_name(dtype));
  p.global("torch.serialization", "_get_layout");
  p.mark();
  p.string("torch.strided");
  p.tuple();
  p.reduce();
  p.boolean(false);
  p.global(kMetadataModule, "_MEM_FORMAT_ENCODING");
  p.mark();
  p.integer(0);
  p.tuple();
  p.reduce();
  p.boolean(false);
  p.tuple();
  p.build();
}

void write_chunk(PickleWriter& p, const mesh::Box& box) {
  instance(p, kMetadataModule, "ChunkStorageMetadata");
  p.empty_dict();
  p.mark();
  p.string("offsets");
  p.size(box.offsets);
  p.string("sizes");
  p.size(box.sizes);
  p.set_items();
  p.build();
}

void write_tensor(PickleWriter& p, const StoredTensor& tensor) {
  instance(p, kMetadataModule, "TensorStorageMetadata");
  p.empty_dict();
  p.mark();
  p.string("properties");
  write_properties(p, tensor.info.dtype);
  p.string("size");
  p.size(tensor.info.shape);
  p.string("chunks");
  p.empty_list();
  p.mark();
  for (const Item& item : tensor.items) write_chunk(p, item.box);
  p.append_items();
  p.set_items();
  p.build();
}

void write_place(PickleWriter& p, const std::string& file, int64_t offset, int64_t length) {
  instance(p, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
  p.empty_dict();
  p.mark();
  p.string("relative_path");
  p.string(file);
  p.string("offset");
  p.integer(offset);
  p.string("length");
  p.integer(length);
  p.set_items();
  p.build();
}

void write_storage(PickleWriter& p, const Item& item, int64_t index) {
  instance(p, kMetadataModule, "MetadataIndex");
  p.empty_dict();
  p.mark();
  p.string("fqn");
  p.string(item.name);
  p.string("index");
  p.integer(index);
  p.string("offset");
  p.size(item.box.offsets);
  p.set_items();
  p.build();
  write_place(p, item.file, item.offset, item.length);
}

void write_storage(PickleWriter& p, const OtherEntry& value) {
  instance(p, kMetadataModule, "MetadataIndex");
  p.empty_dict();
  p.mark();
  p.string("fqn");
  p.string(value.name);
  p.string("index");
  p.none();
  p.string("offset");
  p.none();
  p.set_items();
  p.build();
  write_place(p, value.file, value.offset, value.length);
}

// The nesting of torchtitan's state dict: {"NAME": ..., "optimizer": {"state.NAME.exp_avg": ...}}. dcp.load ignores it;
// dcp_to_torch_save rebuilds the nesting from it.
void write_path(PickleWriter& p, std::string_view name) {
  p.mark();
  for (const std::string_view part : {"optimizer", "lr_scheduler", "train_state"}) {
    if (!name.starts_with(part) || !name.substr(part.size()).starts_with(".")) continue;
    p.string(part);
    name.remove_prefix(part.size() + 1);
    break;
  }
  p.string(name);
  p.tuple();
}

}  // namespace

std::string format_metadata(const Metadata& metadata) {
  std::vector<OtherEntry> values;
  std::copy_if(metadata.others.begin(), metadata.others.end(), std::back_inserter(values),
               [](const OtherEntry& other) { return !other.file.empty(); });
  PickleWriter p;
  instance(p, kMetadataModule, "Metadata");
  p.empty_dict();
  p.mark();

  p.string("state_dict_metadata");
  p.empty_dict();
  p.mark();
  for (const StoredTensor& tensor : metadata.tensors) {
    p.string(tensor.info.name);
    write_tensor(p, tensor);
  }
  for (const OtherEntry& value : values) {
    p.string(value.name);
    instance(p, kMetadataModule, "BytesStorageMetadata");
  }
  p.set_items();

  p.string("planner_data");
  p.empty_dict();
  p.mark();
  for (const StoredTensor& tensor : metadata.tensors) {
    p.string(tensor.info.name);
    write_path(p, tensor.info.name);
  }
  for (const OtherEntry& value : values) {
    p.string(value.name);
    write_path(p, value.name);
  }
  p.set_items();

  p.string("storage_data");
  p.empty_dict();
  p.mark();
  for (const StoredTensor& tensor : metadata.tensors) {
    for (size_t i = 0; i < tensor.items.size(); ++i) write_storage(p, tensor.items[i], static_cast<int64_t>(i));
  }
  for (const OtherEntry& value : values) write_storage(p, value);
  p.set_items();

  p.string("storage_meta");
  p.none();
  p.string("version");
  p.string("1.0.0");
  p.set_items();
  p.build();
  return p.finish();
}

}  // namespace hearth::formats
