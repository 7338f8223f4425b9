// SPDX-License-Identifier: Apache-2.0
// The fields of NeoBERT's config.json, whose names differ from transformers' (arXiv 2502.19587; the code of
// chandar-lab/NeoBERT). The reader and the writer of config.json work with the usual names.
//
//   NeoBERT             the usual names
//   norm_eps            rms_norm_eps
//   max_length          max_position_embeddings
//   intermediate_size   2/3 of it, rounded up to a multiple of 8: the feed-forward has three matrices in place of two
//   dim_head            hidden_size / num_attention_heads
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hearth::convert {

inline constexpr std::string_view kNeoBertType = "neobert";  // model_type

// NeoBERT's fields by the usual names, without the fields that change nothing. Throws user_error naming `origin` for
// the variants of its code (gelu, LayerNorm, positions that are learned, nGPT), and for fields that the code ignores.
nlohmann::json from_neobert_names(const nlohmann::json& neobert, const std::string& origin);

// Writes NeoBERT's names, and where its code is. Throws user_error for what the code does not compute: fewer keys than
// queries, tied weights, another base of rotation, a width of the feed-forward that is no multiple of 8.
nlohmann::ordered_json to_neobert_names(const nlohmann::ordered_json& usual);

}  // namespace hearth::convert
