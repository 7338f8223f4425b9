// SPDX-License-Identifier: Apache-2.0
// A tensor as PyTorch pickles it: a call to torch._utils._rebuild_tensor_v2 with a storage, sizes and strides.
#pragma once

#include <string>
#include <vector>

#include "formats/item.h"
#include "formats/pickle.h"

namespace hearth::formats {

// Reads data.pkl of an archive, whose members are given. Throws user_error for a big-endian machine's archive, and
// damaged() naming `origin` if data.pkl is missing or too long.
Pickle read_data_pkl(const File& file, const ZipMember* byteorder, const ZipMember* data_pkl,
                     const PickleLimits& limits, const std::string& origin);

// Adds the members that torch.save writes in front of tensors' bytes, to a ZipWriter or a ZipFileWriter;
// archive/version comes last.
template <class Zip>
void add_head(Zip& zip, PickleWriter& data_pkl) {
  zip.add("archive/data.pkl", data_pkl.finish());
  zip.add("archive/.format_version", "1");
  zip.add("archive/.storage_alignment", "64");
  zip.add("archive/byteorder", "little");
}

struct TensorObject {
  TensorLayout layout;  // data_offset is not known yet
  std::string storage;  // key of its storage, the member data/KEY of the zip
  int64_t offset = 0;   // of the tensor's first element in the storage, in elements
};

// Reads a tensor, or a Parameter. Throws damaged() naming `origin` if `value` is another object, and user_error for an
// element type that Hearth lacks.
TensorObject read_tensor_object(const Pickle& pickle, PickleValue value, const std::string& origin);

// The layout with its place in the file. `data` is the storage's member, or null. Throws damaged() unless all elements
// lie in it.
TensorLayout place_tensor(const TensorObject& tensor, const ZipMember* data, const std::string& origin);

// Pushes a contiguous tensor of `sizes`, the whole storage `key`.
void write_tensor_object(PickleWriter& pickle, DType dtype, const std::vector<int64_t>& sizes, const std::string& key);

}  // namespace hearth::formats
