// SPDX-License-Identifier: Apache-2.0
// The fields of ModernBERT's config.json, whose names differ from those of other classes (transformers'
// ModernBertConfig, arXiv 2412.13663). The reader and the writer of config.json work with the usual names.
//
//   ModernBERT                          the usual names
//   norm_eps                            rms_norm_eps
//   local_attention                     sliding_window, which is half of it: the reach to each side
//   global_attn_every_n_layers          sliding_window_pattern; the first layer of every n has no window, not the last
//   global_rope_theta, local_rope_theta rope_theta, rope_local_base_freq
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "config/families.h"

namespace hearth::convert {

inline constexpr std::string_view kModernBertType = "modernbert";  // model_type

// ModernBERT's fields by the usual names, without the fields that change nothing. `type` has the defaults. Throws
// user_error naming `origin` for a field of another type, and for one that transformers 4 and 5 read differently.
nlohmann::json with_usual_names(const nlohmann::json& modernbert, const config::HuggingFaceClass& type,
                                const std::string& origin);

// Writes ModernBERT's names, and the bases of rotation as transformers 4 and 5 each read them. Throws user_error for
// what transformers 4 has no field for: other patterns of windows, and fewer keys than queries.
nlohmann::ordered_json with_modernbert_names(const nlohmann::ordered_json& fields,
                                             const config::HuggingFaceClass& type);

}  // namespace hearth::convert
