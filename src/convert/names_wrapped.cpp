// Names that wrappers of modules have changed.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "convert/names.h"

namespace hearth::convert {
namespace {

constexpr std::string_view kWrappers[] = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
                                          "_forward_module"};

bool is_wrapper(std::string_view part) {
  return std::find(std::begin(kWrappers), std::end(kWrappers), part) != std::end(kWrappers);
}

}  // namespace

std::string unwrapped(std::string_view name) {
  std::string plain;
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
    // The last part is the tensor's own name.
    if (!name.empty() && is_wrapper(part)) continue;
    if (!plain.empty()) plain += '.';
    plain += part;
  }
  return plain;
}

std::optional<std::string> from_wrapped_hugging_face(std::string_view name, std::string_view family) {
  const std::string plain = unwrapped(name);
  if (auto known = from_hugging_face(plain, family)) return known;
  if (auto known = from_hugging_face("model." + plain, family)) return known;
  if (plain.starts_with("model.")) return from_hugging_face(std::string_view(plain).substr(6), family);
  return std::nullopt;
}

void Renaming::add(const std::string& stored, const std::string& name, std::string_view plain) {
  const auto [found, is_new] = stored_.emplace(name, stored);
  if (!is_new)
    throw user_error(fmt::format("{} has {} and {}, which are one weight", origin_, found->second, stored),
                     "only what a wrapper of the module put into the names tells them apart",
                     "save the model's own state_dict again");
  if (stored == plain) return;
  if (changed_++ > 0) return;
  first_ = stored;
  first_plain_ = plain;
}

std::vector<std::string> Renaming::notes() const {
  if (changed_ == 0) return {};
  return {fmt::format("{} written by a wrapper or by another class: {} is read as {}",
                      changed_ == 1 ? "1 name was" : fmt::format("{} names were", changed_), first_, first_plain_)};
}

}  // namespace hearth::convert
