#include "config/flavors.h"

#include <algorithm>

namespace hearth::config {
namespace {

// Sources. llama2 and llama3: torchtitan's tables. llama3 "1B" and "3B" (not Meta's shapes) and 250M to 7B:
// repositories for neural data that are based on torchtitan. llama3.1 and llama3.2: Meta's model cards and config.json.
// llemma: CodeLlama's shapes with the settings of llemma_7b.yml and llemma_34b.yml. qwen2, qwen2.5 and qwen3:
// config.json of the base models, without the mixtures of experts.
constexpr Flavor kFlavors[] = {
    {"llama2", "debugmodel", 256, 8, 16, 16, 0, 256, 10000},
    {"llama2", "271M", 1024, 16, 8, 8, 0, 256, 10000},
    {"llama2", "1B", 2048, 18, 16, 16, 0, 256, 10000},
    {"llama2", "7B", 4096, 32, 32, 32, 0, 256, 10000},
    {"llama2", "13B", 5120, 40, 40, 40, 0, 256, 10000},
    {"llama2", "26B", 5120, 80, 40, 40, 0, 256, 10000},
    {"llama2", "70B", 8192, 80, 64, 8, 1.3, 4096, 10000},
    {"llama3", "debugmodel", 256, 8, 16, 16, 0, 256, 500000},
    {"llama3", "250M", 1024, 16, 16, 8, 1.3, 1024, 10000},
    {"llama3", "870M", 2048, 16, 32, 8, 1.3, 1024, 10000},
    {"llama3", "1B", 2048, 16, 32, 8, 1.3, 1024, 500000},
    {"llama3", "2B", 3072, 16, 32, 8, 1.3, 1024, 10000},
    {"llama3", "3B", 3072, 28, 24, 8, 1.3, 1024, 500000},
    {"llama3", "5B", 4096, 16, 32, 8, 1.3, 1024, 10000},
    {"llama3", "7B", 4096, 32, 32, 8, 1.3, 1024, 10000},
    {"llama3", "8B", 4096, 32, 32, 8, 1.3, 1024, 500000},
    {"llama3", "70B", 8192, 80, 64, 8, 1.3, 4096, 500000},
    {"llama3", "405B", 16384, 126, 128, 8, 1.2, 4096, 500000},
    {"llama3.1", "8B", 4096, 32, 32, 8, 1.3, 1024, 500000, 8},
    {"llama3.1", "70B", 8192, 80, 64, 8, 1.3, 4096, 500000, 8},
    {"llama3.1", "405B", 16384, 126, 128, 8, 1.2, 4096, 500000, 8},
    {"llama3.2", "1B", 2048, 16, 32, 8, 1.5, 256, 500000, 32, true},
    {"llama3.2", "3B", 3072, 28, 24, 8, 1, 256, 500000, 32, true},
    {"llemma", "7B", 4096, 32, 32, 32, 0, 256, 10000},
    {"llemma", "34B", 8192, 48, 64, 8, 0, 256, 1000000},
    {"qwen2", "0.5B", 896, 24, 14, 2, 0, 256, 1000000, 1, true, 4864, 0, true, false, 1e-6},
    {"qwen2", "1.5B", 1536, 28, 12, 2, 0, 256, 1000000, 1, true, 8960, 0, true, false, 1e-6},
    {"qwen2", "7B", 3584, 28, 28, 4, 0, 256, 1000000, 1, false, 18944, 0, true, false, 1e-6},
    {"qwen2", "72B", 8192, 80, 64, 8, 0, 256, 1000000, 1, false, 29568, 0, true, false, 1e-5},
    {"qwen2.5", "0.5B", 896, 24, 14, 2, 0, 256, 1000000, 1, true, 4864, 0, true, false, 1e-6},
    {"qwen2.5", "1.5B", 1536, 28, 12, 2, 0, 256, 1000000, 1, true, 8960, 0, true, false, 1e-6},
    {"qwen2.5", "3B", 2048, 36, 16, 2, 0, 256, 1000000, 1, true, 11008, 0, true, false, 1e-6},
    {"qwen2.5", "7B", 3584, 28, 28, 4, 0, 256, 1000000, 1, false, 18944, 0, true, false, 1e-6},
    {"qwen2.5", "14B", 5120, 48, 40, 8, 0, 256, 1000000, 1, false, 13824, 0, true, false, 1e-5},
    {"qwen2.5", "32B", 5120, 64, 40, 8, 0, 256, 1000000, 1, false, 27648, 0, true, false, 1e-5},
    {"qwen2.5", "72B", 8192, 80, 64, 8, 0, 256, 1000000, 1, false, 29568, 0, true, false, 1e-5},
    {"qwen3", "0.6B", 1024, 28, 16, 8, 0, 256, 1000000, 1, true, 3072, 128, false, true, 1e-6},
    {"qwen3", "1.7B", 2048, 28, 16, 8, 0, 256, 1000000, 1, true, 6144, 128, false, true, 1e-6},
    {"qwen3", "4B", 2560, 36, 32, 8, 0, 256, 1000000, 1, true, 9728, 128, false, true, 1e-6},
    {"qwen3", "8B", 4096, 36, 32, 8, 0, 256, 1000000, 1, false, 12288, 128, false, true, 1e-6},
    {"qwen3", "14B", 5120, 40, 40, 8, 0, 256, 1000000, 1, false, 17408, 128, false, true, 1e-6},
    {"qwen3", "32B", 5120, 64, 64, 8, 0, 256, 1000000, 1, false, 25600, 128, false, true, 1e-6},
};

}  // namespace

std::span<const Flavor> flavors() { return kFlavors; }

Model model_of(const Flavor& flavor) {
  Model model;
  model.name = flavor.family;
  model.flavor = flavor.name;
  model.dim = flavor.dim;
  model.n_layers = flavor.n_layers;
  model.n_heads = flavor.n_heads;
  model.n_kv_heads = flavor.n_kv_heads;
  model.ffn_dim_multiplier = flavor.ffn_dim_multiplier;
  model.multiple_of = flavor.multiple_of;
  model.rope_theta = flavor.rope_theta;
  model.rope_scaling_factor = flavor.rope_scaling_factor;
  model.enable_weight_tying = flavor.tied;
  model.hidden_dim = flavor.hidden_dim;
  model.head_dim = flavor.head_dim;
  model.qkv_bias = flavor.qkv_bias;
  model.qk_norm = flavor.qk_norm;
  model.norm_eps = flavor.norm_eps;
  return model;
}

const Flavor* find_flavor(std::string_view family, std::string_view name) {
  const auto found = std::find_if(std::begin(kFlavors), std::end(kFlavors),
                                  [&](const Flavor& f) { return f.family == family && f.name == name; });
  return found == std::end(kFlavors) ? nullptr : found;
}

std::string flavor_names(std::string_view family) {
  std::string names;
  for (const Flavor& flavor : kFlavors) {
    if (flavor.family == family) names.append(names.empty() ? "" : ", ").append(flavor.name);
  }
  return names;
}

}  // namespace hearth::config
