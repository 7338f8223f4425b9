#include "formats/pickle_names.h"

#include <algorithm>
#include <array>

namespace hearth::formats {
namespace {

// The classes and functions in PyTorch's tensor files and DCP's .metadata, torch 2.1 to 2.11, and NumPy's integers,
// which a pickled vocabulary may have. None of them is ever called: the name only decides how a value is read.
constexpr std::array kKnownGlobals = {
    "__builtin__.getattr",  // only of an enum: is_known_enum
    "builtins.getattr",
    "collections.OrderedDict",
    "numpy._core.multiarray.scalar",
    "numpy.core.multiarray.scalar",
    "numpy.dtype",
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib._local.PosixPath",
    "torch.BFloat16Storage",
    "torch.BoolStorage",
    "torch.ByteStorage",
    "torch.CharStorage",
    "torch.ComplexDoubleStorage",
    "torch.ComplexFloatStorage",
    "torch.DoubleStorage",
    "torch.FloatStorage",
    "torch.HalfStorage",
    "torch.IntStorage",
    "torch.LongStorage",
    "torch.ShortStorage",
    "torch.Size",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch.bfloat16",
    "torch.bool",
    "torch.complex128",
    "torch.complex32",
    "torch.complex64",
    "torch.device",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
    "torch.distributed.checkpoint.filesystem._StorageInfo",
    "torch.distributed.checkpoint.metadata.BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata.Metadata",
    "torch.distributed.checkpoint.metadata.MetadataIndex",
    "torch.distributed.checkpoint.metadata.StorageMeta",
    "torch.distributed.checkpoint.metadata.TensorProperties",
    "torch.distributed.checkpoint.metadata.TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.float16",
    "torch.float32",
    "torch.float4_e2m1fn_x2",
    "torch.float64",
    "torch.float8_e4m3fn",
    "torch.float8_e4m3fnuz",
    "torch.float8_e5m2",
    "torch.float8_e5m2fnuz",
    "torch.float8_e8m0fnu",
    "torch.int16",
    "torch.int32",
    "torch.int64",
    "torch.int8",
    "torch.serialization._get_layout",
    "torch.storage.UntypedStorage",
    "torch.uint16",
    "torch.uint32",
    "torch.uint64",
    "torch.uint8",
};

}  // namespace

bool is_known_global(std::string_view name) {
  return std::find(kKnownGlobals.begin(), kKnownGlobals.end(), name) != kKnownGlobals.end();
}
bool is_known_enum(std::string_view name) { return is_known_global(name) && name.ends_with("MEM_FORMAT_ENCODING"); }
size_t num_known_globals() { return kKnownGlobals.size(); }

}  // namespace hearth::formats
