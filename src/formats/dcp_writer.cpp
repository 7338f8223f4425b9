// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "formats/dcp.h"
#include "formats/pickle.h"

namespace hearth::formats {
namespace {

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";

// torch.float32, strided, no gradient, contiguous, not pinned.
void write_properties(PickleWriter& p, DType dtype) {
  p.instance(kMetadataModule, "TensorProperties");
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
  p.instance(kMetadataModule, "ChunkStorageMetadata", [&] {
    p.string("offsets");
    p.size(box.offsets);
    p.string("sizes");
    p.size(box.sizes);
  });
}

void write_tensor(PickleWriter& p, const StoredTensor& tensor) {
  p.instance(kMetadataModule, "TensorStorageMetadata", [&] {
    p.string("properties");
    write_properties(p, tensor.info.dtype);
    p.string("size");
    p.size(tensor.info.shape);
    p.string("chunks");
    p.empty_list();
    p.mark();
    for (const Item& item : tensor.items) write_chunk(p, item.box);
    p.append_items();
  });
}

// A tensor's piece or an OtherEntry, and its place. `push_index` and `push_offset`: of the piece; None for the others.
template <class Stored, class PushIndex, class PushOffset>
void write_storage(PickleWriter& p, const Stored& stored, const PushIndex& push_index, const PushOffset& push_offset) {
  p.instance(kMetadataModule, "MetadataIndex", [&] {
    p.string("fqn");
    p.string(stored.name);
    p.string("index");
    push_index();
    p.string("offset");
    push_offset();
  });
  p.instance("torch.distributed.checkpoint.filesystem", "_StorageInfo", [&] {
    p.string("relative_path");
    p.string(stored.file);
    p.string("offset");
    p.integer(stored.offset);
    p.string("length");
    p.integer(stored.length);
  });
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
  // A dict with a key for each entry: `push_tensor` and `push_value` push what it has there.
  const auto push_by_name = [&](std::string_view key, const auto& push_tensor, const auto& push_value) {
    p.string(key);
    p.dict([&] {
      for (const StoredTensor& tensor : metadata.tensors) {
        p.string(tensor.info.name);
        push_tensor(tensor);
      }
      for (const OtherEntry& value : values) {
        p.string(value.name);
        push_value(value);
      }
    });
  };
  p.instance(kMetadataModule, "Metadata", [&] {
    push_by_name(
        "state_dict_metadata", [&](const StoredTensor& tensor) { write_tensor(p, tensor); },
        [&](const OtherEntry&) { p.instance(kMetadataModule, "BytesStorageMetadata"); });
    push_by_name(
        "planner_data", [&](const StoredTensor& tensor) { write_path(p, tensor.info.name); },
        [&](const OtherEntry& value) { write_path(p, value.name); });
    p.string("storage_data");
    p.dict([&] {
      for (const StoredTensor& tensor : metadata.tensors) {
        for (int64_t i = 0; const Item& item : tensor.items)
          write_storage(
              p, item, [&] { p.integer(i++); }, [&] { p.size(item.box.offsets); });
      }
      for (const OtherEntry& value : values)
        write_storage(
            p, value, [&] { p.none(); }, [&] { p.none(); });
    });
    p.string("storage_meta");
    p.none();
    p.string("version");
    p.string("1.0.0");
  });
  return p.finish();
}

}  // namespace hearth::formats
