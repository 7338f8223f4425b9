// SPDX-License-Identifier: Apache-2.0
#include "formats/tensor_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "formats/type_names.h"

namespace hearth::formats {
namespace {

constexpr int64_t kMaxByteOrder = 64;  // bytes

std::string read_member(const File& file, const ZipMember& member, int64_t max_length, const std::string& origin) {
  if (member.length > max_length)
    throw damaged(fmt::format("{}: {} has {} bytes", origin, member.name, member.length), "far more than expected");
  std::string text(static_cast<size_t>(member.length), '\0');
  file.read_at(member.offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::vector<int64_t> read_integers(const Pickle& pickle, PickleValue value, std::string_view what) {
  const std::span<const PickleValue> values = pickle.sequence(value, what);
  std::vector<int64_t> integers;
  for (const PickleValue v : values) {
    const int64_t integer = pickle.integer(v, what);
    if (integer < 0 || integer > kMaxTensorElements || static_cast<int64_t>(values.size()) > kMaxTensorDimensions)
      throw damaged(fmt::format("{}: impossible {}", pickle.origin(), what));
    integers.push_back(integer);
  }
  return integers;
}

// Index of the last element in the storage, or -1 for an empty tensor. Throws if no file can be that long.
int64_t last_element(const TensorLayout& layout, int64_t offset, const std::string& origin) {
  int64_t last = offset;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] == 0) return -1;
    const int64_t steps = layout.sizes[d] - 1, stride = layout.strides[d];
    if (stride > 0 && steps > (kMaxTensorElements - last) / stride)
      throw damaged(fmt::format("{}: the tensor is larger than any file", origin));
    last += steps * stride;
  }
  return last;
}

}  // namespace

Pickle read_data_pkl(const File& file, const ZipMember* byteorder, const ZipMember* data_pkl,
                     const PickleLimits& limits, const std::string& origin) {
  if (byteorder != nullptr && read_member(file, *byteorder, kMaxByteOrder, origin) != "little")
    throw user_error(fmt::format("{}: written on a big-endian machine; only little-endian files are read", origin));
  if (data_pkl == nullptr) throw damaged(fmt::format("{}: has no data.pkl", origin));
  const std::string bytes = read_member(file, *data_pkl, limits.max_bytes, origin);
  return Pickle::parse(std::as_bytes(std::span(bytes)), origin, limits);
}

// The persistent id is ('storage', class, key, device, numel).
TensorObject read_tensor_object(const Pickle& pickle, PickleValue value, const std::string& origin) {
  Pickle::Object object = pickle.object(value, "the tensor");
  if (object.name == "torch._utils._rebuild_parameter" && !object.arguments.empty())
    object = pickle.object(object.arguments[0], "the parameter's tensor");
  const bool v3 = object.name == "torch._utils._rebuild_tensor_v3";
  if ((!v3 && object.name != "torch._utils._rebuild_tensor_v2") || object.arguments.size() < (v3 ? 7 : 6))
    throw damaged(fmt::format("{}: contains a {}, not a tensor", origin, object.name));
  const PickleValue id = pickle.persistent_id(object.arguments[0], "the storage");
  const std::span<const PickleValue> storage = pickle.sequence(id, "the storage");
  if (storage.size() != 5) throw damaged(fmt::format("{}: the storage has {} fields, not 5", origin, storage.size()));
  const std::string_view type = pickle.global(v3 ? object.arguments[6] : storage[1], "the element type");
  const std::optional<DType> dtype = v3 ? dtype_of_torch(type) : dtype_of_storage(type);
  if (!dtype) throw user_error(fmt::format("{}: element type {} is not supported", origin, type));
  TensorObject tensor{};
  tensor.layout.dtype = *dtype;
  tensor.layout.sizes = read_integers(pickle, object.arguments[2], "tensor size");
  tensor.layout.strides = read_integers(pickle, object.arguments[3], "tensor strides");
  tensor.offset = pickle.integer(object.arguments[1], "the storage offset");
  if (tensor.offset < 0 || tensor.offset > kMaxTensorElements ||
      tensor.layout.sizes.size() != tensor.layout.strides.size())
    throw damaged(fmt::format("{}: sizes, strides and offset do not fit together", origin));
  tensor.storage = pickle.text(storage[2], "the storage's key");
  return tensor;
}

TensorLayout place_tensor(const TensorObject& tensor, const ZipMember* data, const std::string& origin) {
  TensorLayout layout = tensor.layout;
  const int64_t last = last_element(layout, tensor.offset, origin);
  // An empty storage may have no member.
  const int64_t available = data == nullptr ? 0 : data->length / dtype_size(layout.dtype);
  if (last >= available)
    throw damaged(fmt::format("{}: the tensor needs {} elements, {} are stored", origin, last + 1, available));
  if (data == nullptr) return layout;
  layout.data_offset = data->offset + tensor.offset * dtype_size(layout.dtype);
  if (data->has_crc()) layout.member = {data->offset, data->length, data->crc};
  return layout;
}

void write_tensor_object(PickleWriter& pickle, DType dtype, const std::vector<int64_t>& sizes, const std::string& key) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1, numel = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
    numel *= sizes[d];
  }
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.string("storage");
  pickle.global("torch", storage_class(dtype));
  pickle.string(key);
  pickle.string("cpu");
  pickle.integer(numel);
  pickle.tuple();
  pickle.persistent_id();
  pickle.integer(0);  // storage offset
  pickle.integers(sizes);
  pickle.integers(strides);
  pickle.boolean(false);  // requires_grad
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();  // no backward hooks
  pickle.tuple();
  pickle.reduce();
}

}  // namespace hearth::formats
