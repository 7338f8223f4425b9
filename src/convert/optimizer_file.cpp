// SPDX-License-Identifier: Apache-2.0
#include "convert/optimizer_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "base/error.h"

namespace hearth::convert {

OptimizerFile::OptimizerFile(const Path& folder, const std::string& name, std::string_view parts)
    : folder_(folder),
      name_(name),
      origin_((folder / name).string()),
      content_(File::open_read(folder / name), origin_),
      parts_(parts) {}

double OptimizerFile::number(formats::PickleValue value, const char* what) const {
  const std::optional<int64_t> reference = content_.reference(value);
  if (!reference && !content_.is_tensor(value)) return pickle().number(value, what);
  Path path = folder_ / name_;
  if (reference) path = folder_ / fmt::format("{}.tensors/tensor_{}.pt", name_, *reference);
  const formats::TensorLayout layout = reference
                                           ? formats::read_torch_tensor(File::open_read(path), path.string()).layout
                                           : content_.place(value, fmt::format("{}: {}", origin_, what));
  if (layout.dtype != DType::kFloat32 || mesh::Box{{}, layout.sizes}.numel() != 1)
    throw damaged(fmt::format("{}: {} is not one float32", origin_, what));
  std::array<std::byte, 4> bytes{};
  File::open_read(path).read_at(layout.data_offset, bytes);
  return std::bit_cast<float>(bytes);
}

void OptimizerFile::count(formats::PickleValue value) {
  const int64_t updates = counted(number(value, "step"), origin_ + ": step");
  if (updates_ >= 0 && updates_ != updates)
    throw damaged(fmt::format("{}: {} have seen {} and {} updates", origin_, parts_, updates_, updates));
  updates_ = updates;
}

void OptimizerFile::add_counts(TrainingState& training, const char* fix, std::string_view others) const {
  if (updates_ < 0)
    throw user_error(fmt::format("{} does not count its updates", origin_), "AdamW's next step needs their number",
                     fix);
  if (training.updates >= 0 && training.updates != updates_)
    throw damaged(fmt::format("{}: its moments have seen {} updates", origin_, updates_),
                  fmt::format("{} have seen {}", others, training.updates), "take another checkpoint");
  training.updates = updates_;
  if (!training.next_lr) training.next_lr = next_lr_;
}

}  // namespace hearth::convert
