// Named shapes, chosen by `model.name` and `model.flavor`.
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
  // Only for the families of Llama 3.1 and later.
  double rope_scaling_factor = 1;
  bool tied = false;
  // Only for Qwen's families.
  int64_t hidden_dim = 0, head_dim = 0;  // as [model] has them: 0 means the rule
  bool qkv_bias = false, qk_norm = false;
  double norm_eps = 1e-5;
};

// The keys of [model] that a flavor sets, and the flavor's values.
inline constexpr std::string_view kFlavorKeys[] = {"dim",
                                                   "n_layers",
                                                   "n_heads",
                                                   "n_kv_heads",
                                                   "ffn_dim_multiplier",
                                                   "multiple_of",
                                                   "rope_theta",
                                                   "rope_scaling_factor",
                                                   "enable_weight_tying"};
// Those that a flavor sets only where its value is not the key's default.
inline constexpr std::string_view kRareFlavorKeys[] = {"hidden_dim", "head_dim", "qkv_bias", "qk_norm", "norm_eps"};
Model model_of(const Flavor& flavor);

// In the order of docs/config.md, family by family.
std::span<const Flavor> flavors();
// Null if the family has no such flavor.
const Flavor* find_flavor(std::string_view family, std::string_view name);
// The flavors of a family: "7B, 13B".
std::string flavor_names(std::string_view family);

}  // namespace hearth::config
