// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint: from any layout of ranks to any other, by intersecting boxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "formats/dcp.h"
#include "formats/item.h"
#include "formats/mxfp4.h"
#include "mesh/tensor_box.h"
#include "tokenizer/tokenizer.h"

namespace hearth::checkpoint {

// A tensor in another program's files. It consists of pieces of plain bytes, and each piece is a box of the tensor.
struct OutsideTensor {
  struct Piece {
    mesh::Box box;
    std::string file;  // in the folder
    formats::TensorLayout layout;
    // A matrix of numbers of four bits, which read() gives as bfloat16. `layout` then has its sizes only.
    struct Mxfp4 {
      std::string scales_file;  // in the folder
      formats::Mxfp4Rows rows;
    };
    std::optional<Mxfp4> mxfp4 = std::nullopt;
  };
  mesh::TensorInfo info;
  std::vector<Piece> pieces;
};

// Rows [first, first + count) of a tensor.
struct RowRun {
  std::string from;
  int64_t first, count;
};

// The order of a head's rows in a matrix of queries or keys. Rotary embedding of R rows rotates rows (2i, 2i + 1) if
// they are interleaved, and rows (i, i + R/2) if they are halves.
enum class PairOrder { kInterleaved, kHalves };

// When the sizes of a checkpoint's files are checked. kNow finds a missing file at once and asks for all sizes.
// kWhenOpened checks a file when it is opened: for many ranks that read a few files each.
enum class FileSizes { kNow, kWhenOpened };

// One open checkpoint folder. Not thread-safe: each rank opens its own, and checks what it reads.
class Reader {
 public:
  // Opens a checkpoint of ours (it has hearth.json) or of torch.distributed.checkpoint (without checksums). For ours,
  // hearth.json and `.metadata` are checked now, an item's checksum at its first read. Throws damaged(), or user_error
  // if there is no checkpoint. Only a few files are open at a time, however many ranks wrote the checkpoint.
  static Reader open(const Path& folder, FileSizes sizes = FileSizes::kNow);
  // Tensors of another program's files in `folder`, which are opened when they are read. The caller has checked their
  // places. There is no manifest.
  static Reader over(const Path& folder, std::vector<OutsideTensor> tensors);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const Path& folder() const;
  bool has_manifest() const;         // false: PyTorch wrote it
  const Manifest& manifest() const;  // only if has_manifest()

  // The tokenizer of the model's training, from the copy in the folder. Only if has_manifest(). Throws damaged() if the
  // copy is missing or another tokenizer.
  std::unique_ptr<tokenizer::Tokenizer> open_tokenizer() const;

  // In the order of `.metadata`. Tensors of unsupported element types (float8, complex) are left out.
  const std::vector<mesh::TensorInfo>& tensors() const;
  // Null if there is no such tensor. torchtitan wrote weights under "model." until mid 2025: a missing `name` is also
  // looked up with this prefix.
  const mesh::TensorInfo* find(std::string_view name) const;
  // The tensor. Throws user_error that names the expected and the found type or shape.
  const mesh::TensorInfo& require(std::string_view name, DType dtype, const std::vector<int64_t>& shape) const;

  // Copies `box` of the tensor into `out`, row-major, exactly box.numel() * dtype_size bytes. Throws user_error for an
  // unknown name, damaged() if the items do not cover the box or an item's checksum or structure is wrong.
  void read(std::string_view name, const mesh::Box& box, std::span<std::byte> out);

  // A number that is no weight: an entry of PyTorch's folders that is an int or a float, or a tensor without
  // dimensions. Empty if this name is missing or is something else.
  std::optional<double> number(std::string_view name);

  // Adds a tensor that read() then puts together from rows of other tensors, one run after the other. They must have
  // the new tensor's type and columns. A tensor without dimensions has one run: the tensor that it repeats.
  void derive(mesh::TensorInfo info, const std::vector<RowRun>& rows);
  // Takes tensors out of tensors() and find(). Tensors that were derived from them stay.
  void hide(const std::set<std::string>& names);
  // Gives tensors other names than the stored ones.
  void rename(const std::map<std::string, std::string>& names);

  // From now on read() gives the rows of these tensors in the order `to`; they are stored in the other order. `names`:
  // as in tensors(). Each head has `head_width` rows; its first `rotary_width` rows are pairs, and others stay.
  void reorder_pairs(std::set<std::string> names, int64_t head_width, int64_t rotary_width, PairOrder to);

  // Checks the CRC-32s of the zip members from which read() has taken elements, where there is no checksum of ours:
  // other programs' files, and PyTorch's DCP. `read_rest`: also reads the bytes that read() has not read. Without it, a
  // member that was read in part is not checked. Throws damaged().
  void check_members(bool read_rest);

  // The whole content of `.metadata`, entries other than tensors included; a derived tensor has no items.
  const formats::Metadata& metadata() const;
  // Checks one item: the structure of the stored tensor, then our checksum, or the CRC-32s of the zip members in
  // PyTorch's files. Throws damaged() naming the item.
  void check(const formats::StoredTensor& tensor, const formats::Item& item);
  // Whether the item was read, or checked, and has the right checksum.
  bool has_checked(const formats::Item& item) const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hearth::checkpoint
