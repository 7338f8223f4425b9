// Reading a checkpoint: any layout of ranks into any other, by intersecting boxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "formats/dcp.h"
#include "mesh/tensor_box.h"
#include "tokenizer/tokenizer.h"

namespace hearth::checkpoint {

// One open checkpoint folder. Not thread-safe: each rank opens its own, and checks what it reads.
class Reader {
 public:
  // Opens ours (hearth.json is there: it, `.metadata` and the sizes of all files are checked now, an item's checksum
  // when it is first read) or a directory that torch.distributed.checkpoint wrote (no checksums to check). Throws
  // damaged(), or user_error when there is no checkpoint.
  static Reader open(const Path& folder);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const Path& folder() const;
  bool has_manifest() const;         // false: PyTorch wrote it
  const Manifest& manifest() const;  // only if has_manifest()

  // The tokenizer that the model was trained with, from the copy in the folder. Only if has_manifest(). Throws
  // damaged() where it is missing or another one.
  std::unique_ptr<tokenizer::Tokenizer> open_tokenizer() const;

  // In the order of `.metadata`. Tensors of an element type we do not have (float8, complex) are not listed.
  const std::vector<mesh::TensorInfo>& tensors() const;
  // Null when the tensor is not there. torchtitan wrote weights under "model." until mid 2025: a `name` that is not
  // there is looked up with this prefix, too.
  const mesh::TensorInfo* find(std::string_view name) const;
  // The tensor, or a user_error that names what was expected and what was found.
  const mesh::TensorInfo& require(std::string_view name, DType dtype, const std::vector<int64_t>& shape) const;

  // Copies `box` of the tensor into `out`, row-major, exactly box.numel() * dtype_size bytes. Throws user_error for a
  // name that is not there, damaged() where the items do not cover the box or an item's checksum or structure is wrong.
  void read(std::string_view name, const mesh::Box& box, std::span<std::byte> out);

  // Everything `.metadata` says, what is not a tensor included.
  const formats::Metadata& metadata() const;
  // Checks one item as far as it can be: ours by its checksum, any by the structure of the stored tensor, PyTorch's
  // also by the CRC-32 of the zip members. Throws damaged() naming the item.
  void check(const formats::StoredTensor& tensor, const formats::Item& item);

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hearth::checkpoint
