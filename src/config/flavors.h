// Named shapes: what `model.name` and `model.flavor` stand for.
#pragma once

#include <span>
#include <string_view>

#include "config/config.h"

namespace hearth::config {

struct Flavor {
  std::string_view family;  // model.name
  std::string_view name;    // model.flavor
  int64_t dim, n_layers, n_heads, n_kv_heads;
  double ffn_dim_multiplier;
  int64_t multiple_of;
  double rope_theta;
  // For the family of Llama 3.1 and later.
  double rope_scaling_factor = 1;
  bool tied = false;
};

// The keys of [model] that a flavor is about, and the flavor's values for them.
inline constexpr std::string_view kFlavorKeys[] = {"dim",
                                                   "n_layers",
                                                   "n_heads",
                                                   "n_kv_heads",
                                                   "ffn_dim_multiplier",
                                                   "multiple_of",
                                                   "rope_theta",
                                                   "rope_scaling_factor",
                                                   "enable_weight_tying"};
Model model_of(const Flavor& flavor);

// In the order of docs/config.md; families stand together.
std::span<const Flavor> flavors();
// Null if the family has none of this name.
const Flavor* find_flavor(std::string_view family, std::string_view name);
// "7B, 13B": those of a family.
std::string flavor_names(std::string_view family);

}  // namespace hearth::config
