// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/latent.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/derived.h"

namespace hearth::convert {

void check_latent_fields(const nlohmann::json& fields, const config::HuggingFaceClass& type, const config::Model& m,
                         const std::function<void(const std::string&)>& refuse) {
  const auto given = [&](const char* name) { return fields.contains(name) && !fields.at(name).is_null(); };
  const bool has_latents =
      std::any_of(type.keys.begin(), type.keys.end(), [](const config::FieldKey& key) { return key.field == kLatent; });
  constexpr const char* kWidth = "qk_head_dim";
  if (!has_latents) {
    if (given(kWidth)) refuse(fmt::format("field \"{}\" is not one of {}", kWidth, type.model_type));
    return;
  }
  if (!m.has_latents()) refuse(fmt::format("{} = 0", kLatent));
  // transformers writes these two, and computes them from other fields.
  for (const auto& [name, value] : {std::pair(kWidth, config::head_width(m)), {"head_dim", m.qk_rope_head_dim}})
    if (given(name) && fields.at(name) != value)
      refuse(fmt::format("{} = {}, and other fields make it {}", name, fields.at(name).dump(), value));
}

}  // namespace hearth::convert
