#include "formats/item.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "formats/pickle.h"
#include "formats/torch_types.h"

namespace hearth::formats {
namespace {

constexpr int64_t kReadBytes = int64_t{4} << 20;
constexpr PickleLimits kPickleLimits{.max_bytes = 1 << 20, .max_text = 4096, .max_values = 1 << 16};

std::string tensor_pickle(DType dtype, const std::vector<int64_t>& sizes, int64_t numel) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  PickleWriter pickle;
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.string("storage");
  pickle.global("torch", storage_class(dtype));
  pickle.string("0");
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
  return pickle.finish();
}

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

struct Storage {
  std::string key;
  int64_t offset = 0;  // of the tensor's first element in the storage, in elements
};

// ('storage', class, key, device, numel) and the arguments of _rebuild_tensor_v2 or _v3.
Storage read_arguments(const Pickle& pickle, TensorLayout& layout) {
  const std::string& origin = pickle.origin();
  Pickle::Object object = pickle.object(pickle.root(), "the tensor");
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
  layout.dtype = *dtype;
  layout.sizes = read_integers(pickle, object.arguments[2], "tensor size");
  layout.strides = read_integers(pickle, object.arguments[3], "tensor strides");
  const int64_t offset = pickle.integer(object.arguments[1], "the storage offset");
  if (offset < 0 || offset > kMaxTensorElements || layout.sizes.size() != layout.strides.size())
    throw damaged(fmt::format("{}: sizes, strides and offset do not fit together", origin));
  return {std::string(pickle.text(storage[2], "the storage's key")), offset};
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

void add_tensor(ZipWriter& zip, DType dtype, const std::vector<int64_t>& sizes, std::span<const std::byte> bytes) {
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  HEARTH_CHECK(numel * dtype_size(dtype) == static_cast<int64_t>(bytes.size()), "{} elements, {} bytes", numel,
               bytes.size());
  zip.add("archive/data.pkl", tensor_pickle(dtype, sizes, numel));
  zip.add("archive/.format_version", "1");
  zip.add("archive/.storage_alignment", "64");
  zip.add("archive/byteorder", "little");
  zip.add("archive/data/0", bytes);
  zip.add("archive/version", "3\n");
}

TensorLayout read_tensor_layout(const File& file, int64_t offset, int64_t length, const std::string& origin) {
  const std::vector<ZipMember> members = read_zip_directory(file, offset, length, origin);
  const ZipMember* byteorder = find_member(members, "byteorder");
  if (byteorder != nullptr && read_member(file, *byteorder, 64, origin) != "little")
    throw user_error(fmt::format("{}: written on a big-endian machine; only little-endian files are read", origin));
  const ZipMember* data_pkl = find_member(members, "data.pkl");
  if (data_pkl == nullptr) throw damaged(fmt::format("{}: has no data.pkl", origin));
  const std::string pickle_bytes = read_member(file, *data_pkl, kPickleLimits.max_bytes, origin);
  const Pickle pickle = Pickle::parse(std::as_bytes(std::span(pickle_bytes)), origin, kPickleLimits);

  TensorLayout layout{};
  const Storage storage = read_arguments(pickle, layout);
  const ZipMember* data = find_member(members, "data/" + storage.key);
  const int64_t last = last_element(layout, storage.offset, origin);
  // An empty storage may have no member.
  const int64_t available = data == nullptr ? 0 : data->length / dtype_size(layout.dtype);
  if (last >= available)
    throw damaged(fmt::format("{}: the tensor needs {} elements, {} are stored", origin, last + 1, available));
  if (data != nullptr) layout.data_offset = data->offset + storage.offset * dtype_size(layout.dtype);
  return layout;
}

uint64_t hash_range(const File& file, int64_t offset, int64_t length) {
  StreamingHash hash;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(length, kReadBytes)));
  while (length > 0) {
    const std::span<std::byte> part = std::span(buffer).first(static_cast<size_t>(std::min(length, kReadBytes)));
    file.read_at(offset, part);
    hash.update(part);
    offset += static_cast<int64_t>(part.size());
    length -= static_cast<int64_t>(part.size());
  }
  return hash.digest_64();
}

void check_crc(const File& file, int64_t offset, int64_t length, const std::string& origin) {
  std::vector<std::byte> buffer(1 << 20);
  for (const ZipMember& member : read_zip_directory(file, offset, length, origin)) {
    uLong crc = 0;
    for (int64_t at = 0; at < member.length;) {
      const int64_t n = std::min<int64_t>(member.length - at, static_cast<int64_t>(buffer.size()));
      const std::span<std::byte> part = std::span(buffer).first(static_cast<size_t>(n));
      file.read_at(member.offset + at, part);
      crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
      at += n;
    }
    if (crc != member.crc) {
      throw damaged(fmt::format("{}: {} is damaged", origin, member.name),
                    fmt::format("CRC-32 {:08x}, expected {:08x}", crc, member.crc));
    }
  }
}

}  // namespace hearth::formats
