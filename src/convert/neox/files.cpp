#include "convert/neox/files.h"

#include <charconv>

namespace hearth::convert {
namespace {

constexpr int64_t kMostNeoxNumber = 1'000'000;

// Takes the text from the front of `name`; false, and nothing, where it begins otherwise.
bool take_text(std::string_view& name, std::string_view text) {
  if (!name.starts_with(text)) return false;
  name.remove_prefix(text.size());
  return true;
}
bool take_number(std::string_view& name, int64_t& number) {
  if (name.empty() || name[0] < '0' || name[0] > '9') return false;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || number > kMostNeoxNumber) return false;
  name.remove_prefix(static_cast<size_t>(end - name.data()));
  return true;
}

}  // namespace

std::optional<NeoxFile> neox_file(std::string_view name) {
  NeoxFile file{NeoxFile::Kind::kRank, 0};
  if (take_text(name, "layer_")) {
    file.kind = NeoxFile::Kind::kLayer;
    if (!take_number(name, file.layer) || !take_text(name, "-model_") || !take_number(name, file.rank) ||
        name != "-model_states.pt")
      return std::nullopt;
    return file;
  }
  if (take_text(name, "mp_rank_")) {
    if (!take_number(name, file.rank) || name != "_model_states.pt") return std::nullopt;
    return file;
  }
  file.kind = NeoxFile::Kind::kOptimizer;
  take_text(name, "bf16_");
  if (!take_text(name, "zero_pp_rank_") || !take_number(name, file.slice) || !take_text(name, "_mp_rank_") ||
      !take_number(name, file.rank) || name != "_optim_states.pt")
    return std::nullopt;
  return file;
}

std::optional<NeoxTensorName> neox_tensor_name(std::string_view name) {
  NeoxTensorName found{};
  if (take_text(name, kNeoxTied)) return NeoxTensorName{0, std::string(name)};
  take_text(name, "sequential.");
  if (!take_number(name, found.layer) || !take_text(name, ".") || name.empty()) return std::nullopt;
  found.rest = name;
  return found;
}

}  // namespace hearth::convert
