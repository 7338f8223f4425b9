// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle_names.h"

#include <set>
#include <string>

#include "base/text.h"

namespace hearth::formats {
namespace {

struct ModuleNames {
  std::string_view module, names;  // names: with spaces between them
};

// The classes and functions in PyTorch's tensor files and DCP's .metadata, torch 2.1 to 2.11, and NumPy's integers,
// which a pickled vocabulary may have. None of them is ever called: the name only decides how a value is read. getattr
// is only of an enum (is_known_enum).
constexpr ModuleNames kKnownNames[] = {
    {"__builtin__", "getattr"},
    {"builtins", "getattr"},
    {"collections", "OrderedDict"},
    {"numpy._core.multiarray", "scalar"},
    {"numpy.core.multiarray", "scalar"},
    {"numpy", "dtype"},
    {"pathlib", "Path PosixPath PurePosixPath"},
    {"pathlib._local", "PosixPath"},
    {"torch",
     "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage DoubleStorage "
     "FloatStorage HalfStorage IntStorage LongStorage ShortStorage Size bfloat16 bool complex128 complex32 "
     "complex64 device float16 float32 float4_e2m1fn_x2 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
     "float8_e5m2fnuz float8_e8m0fnu int16 int32 int64 int8 uint16 uint32 uint64 uint8"},
    {"torch._utils", "_rebuild_parameter _rebuild_tensor_v2 _rebuild_tensor_v3"},
    {"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING TensorProperties"},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo"},
    {"torch.distributed.checkpoint.metadata",
     "BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex StorageMeta TensorProperties "
     "TensorStorageMetadata _MEM_FORMAT_ENCODING"},
    {"torch.serialization", "_get_layout"},
    {"torch.storage", "UntypedStorage"},
};

const std::set<std::string, std::less<>>& known_globals() {
  static const std::set<std::string, std::less<>> known = [] {
    std::set<std::string, std::less<>> globals;
    for (const auto& [module, names] : kKnownNames) {
      for (const std::string& name : split(names, ' ')) globals.insert(std::string(module) + "." + name);
    }
    return globals;
  }();
  return known;
}

}  // namespace

bool is_known_global(std::string_view name) { return known_globals().contains(name); }
bool is_known_enum(std::string_view name) { return is_known_global(name) && name.ends_with("MEM_FORMAT_ENCODING"); }
size_t num_known_globals() { return known_globals().size(); }

}  // namespace hearth::formats
