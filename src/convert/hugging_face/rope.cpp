// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "config/derived.h"
#include "convert/description.h"
#include "convert/hugging_face/field_values.h"
#include "models/rope.h"

namespace hearth::convert {
namespace {

using config::RopeType;
using HfJson = nlohmann::json;

constexpr const char* kOtherRotation = "Hearth would compute something else than this model";
constexpr const char* kTwoModels = "transformers 4 and 5 would compute different models";
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char* kPartial = "partial_rotary_factor";
constexpr const char* kRotaryDim = "rotary_dim";
constexpr const char* kLocalBase = "rope_local_base_freq";
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";
constexpr const char* kQueryScale = "llama_4_scaling_beta";

// The fields that a type reads, or that stand beside it without an effect; each with a space on both sides.
struct RopeFields {
  std::string_view type, names;
};
constexpr std::string_view kFieldsOfAll = " rope_type type rope_theta partial_rotary_factor ";
constexpr RopeFields kRopeFields[] = {
    {"default", " factor low_freq_factor high_freq_factor original_max_position_embeddings "},
    {"linear", " factor "},
    {"llama3", " factor low_freq_factor high_freq_factor original_max_position_embeddings "},
    {"yarn",
     " factor original_max_position_embeddings attention_factor beta_fast beta_slow mscale mscale_all_dim truncate "},
    {"longrope", " factor original_max_position_embeddings attention_factor short_factor long_factor "}};

bool has_word(std::string_view words, std::string_view name) {
  return words.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

bool is_given(const HfJson& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

auto scaling_of(const config::Model& m) {
  return std::tie(m.rope_type, m.rope_scaling_factor, m.rope_low_freq_factor, m.rope_high_freq_factor,
                  m.rope_original_seq_len, m.rope_beta_fast, m.rope_beta_slow, m.rope_truncate, m.rope_attention_factor,
                  m.rope_mscale_all_dim, m.rope_short_factor, m.rope_long_factor, m.partial_rotary_factor,
                  m.query_position_scale);
}

class RopeReader {
 public:
  RopeReader(const HfJson& fields, const config::HuggingFaceClass& type, int64_t max_positions,
             const std::string& origin)
      : json_(fields), type_(type), max_positions_(max_positions), origin_(origin) {}

  void read(config::Model& model) {
    plain_ = model;
    plain_.rope_theta = type_.rope_theta;
    if (has("rope_theta")) bases_.push_back(plain_.rope_theta = number(json_.at("rope_theta"), "rope_theta"));
    if (type_.partial_rotary > 0) plain_.partial_rotary_factor = type_.partial_rotary;
    if (has(kPartial)) plain_.partial_rotary_factor = share(json_.at(kPartial), kPartial);
    const int64_t rotary_dim = read_rotary_dim(model);
    if (has(kLocalBase) && !type_.layered_rope)
      refuse(fmt::format("field \"{}\" is not one of {}", kLocalBase, type_.model_type));
    std::optional<config::Model> found;
    for (const char* name : {"rope_parameters", "rope_scaling"}) {
      if (!has(name)) continue;
      try {
        const config::Model one = read_place(json_.at(name), name);
        if (found && scaling_of(*found) != scaling_of(one))
          refuse("rope_parameters and rope_scaling differ", kTwoModels);
        if (!found) found = one;
      } catch (const HfJson::exception&) {
        refuse(fmt::format("{} has a field of another type", name), {});
      }
    }
    if (!found && type_.query_position_scale)
      refuse("has no rope_parameters", fmt::format("{}'s class scales queries by them", type_.model_type));
    if (!found && type_.needs_rope)
      refuse("has no rope_parameters", fmt::format("{}'s class has some of its own", type_.model_type));
    model = found.value_or(plain_);
    if (rotary_dim > 0 && config::rotary_width(model) != rotary_dim)
      refuse(fmt::format("{} = {}, and {} = {}", kRotaryDim, rotary_dim, kPartial, model.partial_rotary_factor),
             "not all programs would compute one model");
    model.rope_theta = base();
    if (type_.layered_rope) model.rope_local_theta = local_base(model);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, std::string why = kOtherRotation) const {
    throw user_error(fmt::format("{}: {}", origin_, what), std::move(why));
  }
  bool has(std::string_view name) const { return is_given(json_, name); }
  double number(const HfJson& value, const std::string& name) const {
    return positive_in(value, name, [this](const std::string& what) { refuse(what, {}); });
  }
  int64_t size_of(const HfJson& value, const std::string& name) const {
    return size_in(value, name, 0, [this](const std::string& what) { refuse(what, {}); });
  }
  // partial_rotary_factor, which most classes do not have.
  double share(const HfJson& value, const std::string& name) const {
    if (value != 1 && type_.partial_rotary == 0) refuse(fmt::format("{} = {}", name, value.dump()));
    return number(value, name);
  }

  // MiniMax-M2's number of a head's elements that rotate, in place of their share; 0: not given.
  int64_t read_rotary_dim(const config::Model& model) {
    if (!has(kRotaryDim)) return 0;
    if (!type_.has_rotary_dim) refuse(fmt::format("field \"{}\" is not one of {}", kRotaryDim, type_.model_type));
    const int64_t found =
        size_in(json_.at(kRotaryDim), kRotaryDim, 1, [this](const std::string& what) { refuse(what, {}); });
    if (!has(kPartial))
      plain_.partial_rotary_factor = static_cast<double>(found) / static_cast<double>(head_width(model));
    return found;
  }

  // Without a base of its own a style has the file's, or the class's: transformers computes by one style alone.
  double base() const {
    for (const double one : bases_) {
      if (one != bases_.front())
        refuse(fmt::format("rope_theta is {} in one place and {} in another", bases_.front(), one), kTwoModels);
    }
    return bases_.empty() ? type_.rope_theta : bases_.front();
  }

  // rope_parameters or rope_scaling: the keys of layers without a window, and the rope of those with one.
  config::Model read_place(const HfJson& place, const std::string& name) {
    if (!place.is_object()) refuse(fmt::format("{} is not an object", name), {});
    const bool is_layered = place.contains(kFull) || place.contains(kSliding);
    if (!type_.layered_rope || (!is_layered && name == "rope_scaling")) {
      config::Model one = read_style(place, name);
      bases_.push_back(one.rope_theta);
      return one;
    }
    if (!is_layered) refuse(fmt::format("{} has neither {} nor {}", name, kFull, kSliding));
    for (const auto& [layers, style] : place.items()) {
      if (layers != kFull && layers != kSliding) refuse(fmt::format("{}.{} is not known", name, layers));
    }
    if (is_given(place, kSliding)) {
      HfJson style = place.at(kSliding);
      if (!style.is_object()) refuse(fmt::format("{}.{} is not an object", name, kSliding), {});
      if (!style.contains("rope_theta")) style["rope_theta"] = class_local_base();
      sliding_ = read_style(style, fmt::format("{}.{}", name, kSliding));
    }
    is_layered_ = true;
    config::Model full = plain_;
    if (is_given(place, kFull)) full = read_style(place.at(kFull), fmt::format("{}.{}", name, kFull));
    bases_.push_back(full.rope_theta);
    return full;
  }

  double class_local_base() const {
    return has(kLocalBase) ? number(json_.at(kLocalBase), kLocalBase) : type_.rope_local_theta;
  }

  // model.rope_local_theta, by the keys of the layers without a window.
  double local_base(const config::Model& full) const {
    const double base = class_local_base();
    // transformers 4 has one base for all layers of a class without such a field, and 5 the class's own.
    if (!is_layered_ && !has(kLocalBase) && type_.rope_local_theta == type_.rope_theta && base != full.rope_theta)
      refuse(fmt::format("rope_theta = {}, and no base of layers with a window", full.rope_theta), kTwoModels);
    if (!sliding_) return base;
    if (has(kLocalBase) && sliding_->rope_theta != base)
      refuse(fmt::format("{} is {} and rope_parameters.{} has {}", kLocalBase, base, kSliding, sliding_->rope_theta),
             kTwoModels);
    if (scaling_of(*sliding_) == scaling_of(full) && sliding_->rope_theta == full.rope_theta) return 0;
    if (sliding_->rope_scaling_factor != 1)
      refuse(fmt::format("rope_parameters.{} is scaled, and not as {} is", kSliding, kFull),
             "Hearth scales positions in all layers, or in those without a window");
    return sliding_->rope_theta;
  }

  std::string type_of(const HfJson& style, const std::string& name) const {
    std::string type = style.value("rope_type", style.value("type", std::string("default")));
    const auto is_of_class = [&](std::string_view one) {
      return type_.rope_types.empty() ||
             std::find(type_.rope_types.begin(), type_.rope_types.end(), one) != type_.rope_types.end();
    };
    // Phi-3's class takes these older names for longrope.
    if (type == "su" || (type == "yarn" && !is_of_class("yarn"))) type = "longrope";
    std::vector<std::string_view> known;
    for (const RopeFields& one : kRopeFields) {
      if (is_of_class(one.type)) known.push_back(one.type);
    }
    if (std::find(known.begin(), known.end(), type) == known.end())
      refuse(fmt::format("{}: rope_type \"{}\"", name, style.value("rope_type", style.value("type", std::string()))),
             fmt::format("of {}, Hearth computes the types {}", type_.model_type, fmt::join(known, ", ")));
    return type;
  }

  config::Model read_style(const HfJson& style, const std::string& name) const {
    if (!style.is_object()) refuse(fmt::format("{} is not an object", name), {});
    const std::string type = type_of(style, name);
    const RopeFields& known = *std::find_if(std::begin(kRopeFields), std::end(kRopeFields),
                                            [&](const RopeFields& one) { return one.type == type; });
    for (const auto& [key, value] : style.items()) {
      const bool of_queries = type_.query_position_scale && (key == kQueryScale || key == "max_position_embeddings");
      if (!has_word(kFieldsOfAll, key) && !has_word(known.names, key) && !of_queries)
        refuse(fmt::format("{}.{} is not known", name, key));
    }
    config::Model m = plain_;
    if (style.contains("rope_theta")) m.rope_theta = number(style["rope_theta"], name + ".rope_theta");
    if (style.contains(kPartial)) {
      const double own = share(style[kPartial], fmt::format("{}.{}", name, kPartial));
      if (has(kPartial) && own != plain_.partial_rotary_factor)
        refuse(fmt::format("{} is {} in one place and {} in another", kPartial, plain_.partial_rotary_factor, own),
               kTwoModels);
      m.partial_rotary_factor = own;
    }
    if (type == "linear") m.rope_type = RopeType::kLinear, m.rope_scaling_factor = factor(style, name);
    if (type == "llama3") read_llama3(style, name, m);
    if (type == "yarn") read_yarn(style, name, m);
    if (type == "longrope") read_longrope(style, name, m);
    read_query_scale(style, name, m);
    return m;
  }

  const HfJson& field(const HfJson& style, const std::string& name, const char* key) const {
    if (!is_given(style, key)) refuse(fmt::format("{} has no {}", name, key), {});
    return style[key];
  }
  double number_in(const HfJson& style, const std::string& name, const char* key) const {
    return number(field(style, name, key), fmt::format("{}.{}", name, key));
  }
  // A null and a zero are the default in transformers.
  double number_or(const HfJson& style, const std::string& name, const char* key, double missing) const {
    return is_given(style, key) && style[key] != 0 ? number_in(style, name, key) : missing;
  }
  double factor(const HfJson& style, const std::string& name) const { return number_in(style, name, "factor"); }

  // Also a field of the file itself, as Phi-3's has it.
  int64_t original(const HfJson& style, const std::string& name, std::optional<int64_t> missing = {}) const {
    const bool in_file = has(kOriginal) || type_.original_max_position_embeddings > 0;
    if (!in_file && !is_given(style, kOriginal) && missing) return *missing;
    const int64_t of_file =
        has(kOriginal) ? size_of(json_.at(kOriginal), kOriginal) : type_.original_max_position_embeddings;
    if (in_file && !is_given(style, kOriginal)) return of_file;
    const int64_t own = size_of(field(style, name, kOriginal), fmt::format("{}.{}", name, kOriginal));
    if (in_file && own != of_file)
      refuse(fmt::format("{} is {} in one place and {} in another", kOriginal, of_file, own), kTwoModels);
    return own;
  }
  double factor_or_ratio(const HfJson& style, const std::string& name, int64_t original_positions) const {
    if (is_given(style, "factor")) return factor(style, name);
    return static_cast<double>(max_positions_) / static_cast<double>(original_positions);
  }

  void read_llama3(const HfJson& style, const std::string& name, config::Model& m) const {
    m.rope_type = RopeType::kLlama3;
    m.rope_scaling_factor = factor(style, name);
    m.rope_low_freq_factor = number_in(style, name, "low_freq_factor");
    m.rope_high_freq_factor = number_in(style, name, "high_freq_factor");
    if (m.rope_low_freq_factor >= m.rope_high_freq_factor)
      refuse(fmt::format("{}.high_freq_factor is not above {}.low_freq_factor", name, name),
             "the scaling divides by their difference");
    m.rope_original_seq_len = original(style, name);
  }

  void set_attention_factor(double factor, const std::string& name, config::Model& m) const {
    if (m.rope_scaling_factor == 1 && factor != 1)
      refuse(fmt::format("{} has no scaling, and multiplies by {}", name, factor));
    m.rope_attention_factor = factor == models::default_attention_factor(m) ? 0 : factor;
  }

  void read_yarn(const HfJson& style, const std::string& name, config::Model& m) const {
    m.rope_original_seq_len = original(style, name, max_positions_);
    m.rope_scaling_factor = factor_or_ratio(style, name, m.rope_original_seq_len);
    m.rope_type = m.rope_scaling_factor == 1 ? RopeType::kLlama3 : RopeType::kYarn;
    m.rope_beta_fast = number_or(style, name, "beta_fast", m.rope_beta_fast);
    m.rope_beta_slow = number_or(style, name, "beta_slow", m.rope_beta_slow);
    if (m.rope_beta_slow >= m.rope_beta_fast)
      refuse(fmt::format("{}.beta_fast is not above {}.beta_slow", name, name), {});
    if (is_given(style, "truncate")) m.rope_truncate = style["truncate"].get<bool>();
    // transformers looks for it beside the layers' styles, where it is not.
    if (type_.layered_rope && !m.rope_truncate) refuse(fmt::format("{}.truncate = false", name), kTwoModels);
    const double stretch = std::log(m.rope_scaling_factor);
    const double one = number_or(style, name, "mscale", 0), all = number_or(style, name, "mscale_all_dim", 0);
    double attention = models::default_attention_factor(m);
    if (one > 0 && all > 0) attention = (0.1 * one * stretch + 1) / (0.1 * all * stretch + 1);
    if (is_given(style, "attention_factor")) attention = number_in(style, name, "attention_factor");
    set_attention_factor(attention, name, m);
    if (m.rope_scaling_factor != 1) {
      if (type_.scales_scores) m.rope_mscale_all_dim = all;
      return;
    }
    m.rope_original_seq_len = plain_.rope_original_seq_len;  // no key has an effect
    m.rope_beta_fast = plain_.rope_beta_fast, m.rope_beta_slow = plain_.rope_beta_slow;
    m.rope_truncate = plain_.rope_truncate;
  }

  void read_longrope(const HfJson& style, const std::string& name, config::Model& m) const {
    m.rope_type = RopeType::kLongRope;
    m.rope_original_seq_len = original(style, name, max_positions_);
    m.rope_scaling_factor = factor_or_ratio(style, name, m.rope_original_seq_len);
    if (m.rope_scaling_factor <= 1)
      refuse(fmt::format("{}: longrope with a factor of {}", name, m.rope_scaling_factor),
             fmt::format("without a factor it is max_position_embeddings / {}", kOriginal));
    for (const auto& [key, list] :
         {std::pair("short_factor", &m.rope_short_factor), {"long_factor", &m.rope_long_factor}}) {
      for (const HfJson& value : field(style, name, key))
        list->push_back(number(value, fmt::format("{}.{}", name, key)));
    }
    const double attention = is_given(style, "attention_factor") ? number_in(style, name, "attention_factor")
                                                                 : models::default_attention_factor(m);
    set_attention_factor(attention, name, m);
  }

  void read_query_scale(const HfJson& style, const std::string& name, config::Model& m) const {
    if (!type_.query_position_scale) return;
    const HfJson& scale = field(style, name, kQueryScale);
    if (scale == 0) return;
    m.query_position_scale = number(scale, fmt::format("{}.{}", name, kQueryScale));
    if (m.rope_scaling_factor == 1 || m.rope_type == RopeType::kLinear)
      refuse(fmt::format("{}.{} = {}", name, kQueryScale, scale.dump()),
             "Hearth scales queries where positions are scaled, as their original length says");
  }

  const HfJson& json_;
  const config::HuggingFaceClass& type_;
  const int64_t max_positions_;
  const std::string& origin_;
  config::Model plain_;                   // with the fields outside of styles
  std::vector<double> bases_;             // of layers without a window, in each place
  std::optional<config::Model> sliding_;  // of layers with a window, where rope_parameters has them
  bool is_layered_ = false;               // rope_parameters has styles of layers
};

}  // namespace

void read_rope(const HfJson& fields, const config::HuggingFaceClass& type, int64_t max_positions,
               const std::string& origin, config::Model& model) {
  RopeReader(fields, type, max_positions, origin).read(model);
}

}  // namespace hearth::convert
