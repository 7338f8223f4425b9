#include "convert/transfer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "convert/cast.h"

namespace hearth::convert {
namespace {

constexpr int64_t kPortionBytes = int64_t{32} << 20;

}  // namespace

int64_t bytes_of(const mesh::TensorInfo& info) { return mesh::Box{{}, info.shape}.numel() * dtype_size(info.dtype); }

void transfer(checkpoint::Reader& reader, const Transfer& tensor, Progress& progress,
              const std::function<void(const mesh::Box& box, std::span<const std::byte> bytes)>& write) {
  const mesh::Box whole{std::vector<int64_t>(tensor.to.shape.size()), tensor.to.shape};
  transfer(reader, tensor, whole, progress, write);
}

void transfer(checkpoint::Reader& reader, const Transfer& tensor, const mesh::Box& part, Progress& progress,
              const std::function<void(const mesh::Box& box, std::span<const std::byte> bytes)>& write) {
  const DType from = reader.find(tensor.from)->dtype, to = tensor.to.dtype;
  mesh::Box box = part;
  const bool has_rows = !part.sizes.empty();
  const int64_t rows = has_rows ? part.sizes[0] : 1, row_numel = part.numel() / std::max<int64_t>(rows, 1);
  const int64_t portion = std::max<int64_t>(1, kPortionBytes / (row_numel * dtype_size(from)));
  std::vector<std::byte> stored, converted;
  for (int64_t row = 0; row < rows; row += portion) {
    if (has_rows) {
      box.offsets[0] = part.offsets[0] + row;
      box.sizes[0] = std::min(portion, rows - row);
    }
    stored.resize(static_cast<size_t>(box.numel() * dtype_size(from)));
    reader.read(tensor.from, box, stored);
    if (has_nonfinite(stored, from))
      throw user_error(
          fmt::format("{}: {} has an element that is NaN or infinite", reader.folder().string(), tensor.from),
          "a model with it computes nothing useful", "take another checkpoint");
    if (from != to) {
      cast(stored, from, to, converted);
      if (has_nonfinite(converted, to))
        throw user_error(fmt::format("{}: {} has an element that {} cannot represent", reader.folder().string(),
                                     tensor.from, dtype_name(to)),
                         "it would become infinite", "give --dtype bfloat16 or float32");
    }
    const std::vector<std::byte>& bytes = from != to ? converted : stored;
    write(box, bytes);
    progress.done_bytes += static_cast<int64_t>(bytes.size());
  }
}

}  // namespace hearth::convert
