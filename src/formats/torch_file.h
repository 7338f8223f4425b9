// SPDX-License-Identifier: Apache-2.0
// A state dict as torch.save writes it: a zip with data.pkl (names and shapes) and one member of bytes for each
// storage. Meta publishes its models as such files.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/dcp.h"
#include "formats/item.h"
#include "formats/pickle.h"
#include "formats/zip.h"

namespace hearth::formats {

struct TorchTensor {
  std::string name;
  TensorLayout layout;
};

// A tensor in another file, as torch_xla's `xser` stores it: tensor_ID.pt in the folder FILE.tensors.
struct TorchReference {
  std::string name;
  int64_t id;
};

struct TorchFile {
  std::vector<TorchTensor> tensors;        // in the dict's order; several may lie in one storage
  std::vector<TorchReference> references;  // in the dict's order
  std::vector<OtherEntry> others;          // values that are neither tensors nor references
};

// Reads a dict of tensors. Classes that the reader does not know become entries of `others`, and nothing runs. Throws
// damaged() naming `origin` if the value is not a dict, if a name appears twice, or if a tensor exceeds its storage.
// `key`: the dict is the value of this key in the file's dict; empty: it is the file's dict itself.
TorchFile read_torch_file(const File& file, const std::string& origin, const std::string& key = {});

// Reads a file that is one tensor. The tensor's name is empty. Throws as read_torch_file does.
TorchTensor read_torch_tensor(const File& file, const std::string& origin);

// A file whose values are not all tensors, such as the state of a training.
class TorchPickle {
 public:
  // Throws damaged() naming `origin`. Nothing runs: classes are names.
  TorchPickle(const File& file, const std::string& origin);
  const Pickle& pickle() const { return pickle_; }
  bool is_tensor(PickleValue value) const;
  // The id of a TorchReference; nullopt for other values.
  std::optional<int64_t> reference(PickleValue value) const;
  // Where the tensor lies in the file. Throws damaged() naming `where`.
  TensorLayout place(PickleValue value, const std::string& where) const;

 private:
  std::vector<ZipMember> members_;
  Pickle pickle_;
};

// Whether the file begins like a zip, as torch.save's files do.
bool is_zip(const File& file);

// Writes contiguous tensors, each with a storage of its own: their bytes come in the order of `tensors`.
class TorchFileWriter {
 public:
  using PushTensor = std::function<void(const mesh::TensorInfo& tensor)>;
  // A dict of tensors. `key`: the file is a dict whose only value, under this key, is that dict; empty: it is the dict.
  TorchFileWriter(const Path& path, std::span<const mesh::TensorInfo> tensors, const std::string& key = {});
  // A file that is one tensor; its name is not written.
  TorchFileWriter(const Path& path, const mesh::TensorInfo& tensor);
  // A file of any values: `values` pushes one value, and calls its second argument for each tensor in it.
  TorchFileWriter(const Path& path, const std::function<void(PickleWriter&, const PushTensor&)>& values);
  void write(std::span<const std::byte> bytes);
  void finish();  // fsyncs; all bytes must have been written

 private:
  ZipFileWriter zip_;
  std::vector<int64_t> sizes_;  // bytes
  size_t next_ = 0;
  int64_t missing_ = 0;  // of the tensor that began last
};

// Writes the dict of a file of xser: name I stands for tensor_I.pt in the folder FILE.tensors. `key` as above.
void write_torch_references(const Path& path, std::span<const mesh::TensorInfo> tensors, const std::string& key = {});

// Pushes a reference to tensor_ID.pt.
void push_torch_reference(PickleWriter& pickle, int64_t id);

// Writes a file that has a pickle and no tensors.
void write_torch_pickle(const Path& path, PickleWriter& pickle);

}  // namespace hearth::formats
