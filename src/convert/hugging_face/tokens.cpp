// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/tokens.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace hearth::convert {

void read_tokens(const nlohmann::json& fields, Description& d, const std::function<void(const std::string&)>& refuse) {
  const auto has = [&](const char* name) { return fields.contains(name) && !fields.at(name).is_null(); };
  const auto token = [&](const nlohmann::json& value, const char* name) {
    if (!value.is_number_integer() || value < 0 || value >= d.model.vocab_size)
      refuse(fmt::format("{} = {} is not a token", name, value.dump()));
    return value.get<int64_t>();
  };
  if (has("mask_token_id")) d.mask = token(fields["mask_token_id"], "mask_token_id");
  if (has("bos_token_id")) d.bos = token(fields["bos_token_id"], "bos_token_id");
  if (!has("eos_token_id")) return;
  const nlohmann::json& eos = fields["eos_token_id"];
  if (!eos.is_array())
    d.eos = {token(eos, "eos_token_id")};
  else
    for (const nlohmann::json& value : eos) d.eos.push_back(token(value, "eos_token_id"));
}

}  // namespace hearth::convert
