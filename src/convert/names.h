// The names of weights in each dialect. One table serves both directions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth::convert {

// Hearth's name of a tensor of Hugging Face's Llama, and back. Empty if the table lacks it.
std::optional<std::string> from_hugging_face(std::string_view name);
std::optional<std::string> to_hugging_face(std::string_view name);

// The same for torchtitan 0.3 (2026). Hearth's names are torchtitan's of 2025.
std::optional<std::string> from_torchtitan(std::string_view name);
std::optional<std::string> to_torchtitan(std::string_view name);

// State of a training besides its weights, by Hearth's name: moments, and what other programs call lr_scheduler,
// dataloader, train_state.
bool is_training_state(std::string_view name);

// Tensors that programs store although they are computed: the frequencies of rotary embedding.
bool is_computed(std::string_view name);

// Whether rotary embedding acts on the rows: of queries' and keys' matrices, biases and norms, by Hearth's name.
// Moments of these count, too.
bool has_pairs(std::string_view name);

// The dimension along which Meta's model-parallel files share a matrix, by its name; empty: every file has the whole
// (norms), or the name is not known. Embeddings are cut along either one: the caller decides by their shape.
std::optional<size_t> meta_split(std::string_view name);

}  // namespace hearth::convert
