// SPDX-License-Identifier: Apache-2.0
// The names of files in GPT-NeoX's checkpoints, and of tensors in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hearth::convert {

struct NeoxFile {
  enum class Kind {
    kLayer,     // layer_05-model_01-model_states.pt: the weights of layer 5, of rank 1 of tensor parallel
    kRank,      // mp_rank_01_model_states.pt: the state of model-parallel rank 1, and its weights without layers' files
    kOptimizer  // bf16_zero_pp_rank_3_mp_rank_01_optim_states.pt: moments of model-parallel rank 1, slice 3
  };
  Kind kind;
  int64_t rank;       // of tensor parallel, or of model parallel: stage * ranks of tensor parallel + rank
  int64_t layer = 0;  // of kLayer
  int64_t slice = 0;  // of kOptimizer: rank of data parallel
};
std::optional<NeoxFile> neox_file(std::string_view name);

// The module of tied weights, which is layer 0, in the names of a pipeline's parameters.
constexpr std::string_view kNeoxTied = "tied_modules.embed.";

// "sequential.5.attention.dense.weight", and in a pipeline's files "5.attention.dense.weight" or
// "tied_modules.embed.word_embeddings.weight".
struct NeoxTensorName {
  int64_t layer;
  std::string rest;  // "attention.dense.weight"
};
std::optional<NeoxTensorName> neox_tensor_name(std::string_view name);

}  // namespace hearth::convert
