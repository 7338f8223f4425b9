// SPDX-License-Identifier: Apache-2.0
#include "convert/meta/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quantity.h"
#include "formats/json_object.h"

namespace hearth::convert {
namespace {

using MetaJson = nlohmann::ordered_json;

// Fixed in Meta's code; published models of other sizes have another factor there.
constexpr double kLowFreqFactor = 1, kHighFreqFactor = 4;
constexpr int64_t kOriginalPositions = 8192;

// Llama 3.2's 1B and 3B say use_scaled_rope like all others, and were made with factor 32.
double scaling_factor(const config::Model& m) {
  const bool is_3_2 =
      (m.dim == 2048 && m.n_layers == 16 && m.n_heads == 32) || (m.dim == 3072 && m.n_layers == 28 && m.n_heads == 24);
  return is_3_2 ? 32 : 8;
}

// Meta's rule (model.py, FeedForward).
int64_t feed_forward(int64_t dim, double multiplier, int64_t multiple_of) {
  auto width = 2 * (4 * dim) / 3;
  if (multiplier > 0) width = static_cast<int64_t>(multiplier * static_cast<double>(width));
  return round_up(width, multiple_of);
}

}  // namespace

Description parse_meta_params(std::string_view text, const std::string& origin, std::vector<std::string>& notes) {
  const nlohmann::json json = formats::parse_json_object(text, origin);
  const auto refuse = [&](const std::string& what, std::string why = {}) {
    return user_error(fmt::format("{}: {}", origin, what), std::move(why));
  };
  constexpr std::string_view kKnown[] = {
      "dim",      "n_layers",   "n_heads",         "n_kv_heads",     "vocab_size", "multiple_of", "ffn_dim_multiplier",
      "norm_eps", "rope_theta", "use_scaled_rope", "max_batch_size", "max_seq_len"};
  for (const auto& [name, value] : json.items()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
      throw refuse(fmt::format("field \"{}\" is not known", name), "it could change what the model computes");
  }
  const auto size = [&](const char* name, int64_t missing) {
    if (!json.contains(name) || json[name].is_null()) {
      if (missing == 0) throw refuse(fmt::format("has no {}", name));
      return missing;
    }
    if (!json[name].is_number_integer() || json[name] < -1 || json[name] == 0 || json[name] > int64_t{1} << 31)
      throw refuse(fmt::format("{} = {} is not a size", name, json[name].dump()));
    return json[name].get<int64_t>();
  };
  const auto number = [&](const char* name, double missing) {
    if (!json.contains(name) || json[name].is_null()) return missing;
    if (!json[name].is_number() || !(json[name].get<double>() > 0))
      throw refuse(fmt::format("{} = {} is not a positive number", name, json[name].dump()));
    return json[name].get<double>();
  };
  Description d;
  config::Model& m = d.model;
  m.dim = size("dim", 0);
  m.n_layers = size("n_layers", 0);
  m.n_heads = size("n_heads", 0);
  m.n_kv_heads = size("n_kv_heads", m.n_heads);
  m.vocab_size = size("vocab_size", -1);
  if (m.dim < 1 || m.n_layers < 1 || m.n_heads < 1 || m.n_kv_heads < 1 || m.n_heads % m.n_kv_heads != 0 ||
      m.dim % m.n_heads != 0)
    throw refuse("dim, n_layers, n_heads and n_kv_heads do not fit together");
  m.norm_eps = number("norm_eps", 1e-5);
  m.rope_theta = number("rope_theta", 10000);
  m.rope_pairs = config::RopePairs::kInterleaved;
  if (json.contains("use_scaled_rope") && !json["use_scaled_rope"].is_boolean())
    throw refuse("use_scaled_rope is neither true nor false");
  if (json.value("use_scaled_rope", false)) {
    m.rope_scaling_factor = scaling_factor(m);
    m.rope_low_freq_factor = kLowFreqFactor;
    m.rope_high_freq_factor = kHighFreqFactor;
    m.rope_original_seq_len = kOriginalPositions;
    notes.push_back(fmt::format("use_scaled_rope has no factor in params.json: {} is taken, as for {}",
                                m.rope_scaling_factor,
                                m.rope_scaling_factor == 8 ? "Llama 3.1" : "Llama 3.2's models of this shape"));
  }
  d.max_positions = size("max_seq_len", m.rope_scaling_factor != 1 ? 131072 : m.rope_theta > 10000 ? 8192 : 4096);
  return d;
}

std::string format_meta_params(const Description& d) {
  const config::Model& m = d.model;
  require_plain_llama(d, "Meta");
  MetaJson json = {{"dim", m.dim},
                   {"n_layers", m.n_layers},
                   {"n_heads", m.n_heads},
                   {"n_kv_heads", m.n_kv_heads},
                   {"vocab_size", m.vocab_size},
                   {"norm_eps", m.norm_eps},
                   {"rope_theta", m.rope_theta}};
  if (m.rope_scaling_factor != 1) {
    if (m.rope_type != config::RopeType::kLlama3 || m.rope_scaling_factor != scaling_factor(m) ||
        m.rope_low_freq_factor != kLowFreqFactor || m.rope_high_freq_factor != kHighFreqFactor ||
        m.rope_original_seq_len != kOriginalPositions)
      throw no_home(
          fmt::format("model.rope_scaling_factor = {}", m.rope_scaling_factor), "Meta",
          fmt::format("its code has factor {} for this shape, low 1, high 4 and 8192 positions", scaling_factor(m)),
          "write Hugging Face's format, which has a field for each");
    json["use_scaled_rope"] = true;
  }
  // The width's rule, turned around.
  json["multiple_of"] = 256;
  if (feed_forward(m.dim, 0, 256) != m.hidden_dim) {
    json["multiple_of"] = 1;
    json["ffn_dim_multiplier"] =
        (static_cast<double>(m.hidden_dim) + 0.5) / static_cast<double>(feed_forward(m.dim, 0, 1));
    HEARTH_CHECK(feed_forward(m.dim, json["ffn_dim_multiplier"].get<double>(), 1) == m.hidden_dim);
  }
  return json.dump() + "\n";
}

}  // namespace hearth::convert
