// SPDX-License-Identifier: Apache-2.0
// The names of weights in each dialect: src/models/llama/names.toml, and before it the file of the weights' family. One
// table serves both directions. Formats that have the first Llamas alone look at Llama's file alone: torchtitan, Meta.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::convert {

// Hearth's names of the two matrices that tied weights have as one.
inline constexpr const char *kEmbedding = "tok_embeddings.weight", *kOutput = "output.weight";

// A folder of src/models.
inline constexpr std::string_view kLlama = "llama";

// Hearth's name of a tensor that Hugging Face's class of the family has, and back. Empty if the table lacks it.
std::optional<std::string> from_hugging_face(std::string_view name, std::string_view family = kLlama);
std::optional<std::string> to_hugging_face(std::string_view name, std::string_view family = kLlama);

// The same for torchtitan 0.3 (2026). Hearth's names are torchtitan's of 2025.
std::optional<std::string> from_torchtitan(std::string_view name);
std::optional<std::string> to_torchtitan(std::string_view name);

// The name without "model." before it, which torchtitan wrote until mid 2025.
inline std::string_view without_model(std::string_view name) {
  return name.starts_with("model.") ? name.substr(6) : name;
}

// The name without what wrappers of modules put into it: "module." (DDP), "_orig_mod." (torch.compile),
// "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_forward_module.", at any place.
std::string unwrapped(std::string_view name);

// Hearth's name of a weight that a file has under Hugging Face's name: with the parts of wrappers, with another
// "model." before all names, or without "model." (a folder of LlamaModel). Empty: not known.
std::optional<std::string> from_wrapped_hugging_face(std::string_view name, std::string_view family = kLlama);

// Stored names by the names that they stand for. Throws user_error if two of them stand for one weight.
class Renaming {
 public:
  // `origin`: the files, for errors.
  explicit Renaming(std::string origin) : origin_(std::move(origin)) {}
  // `plain`: the stored name in the file's own dialect without what is taken off.
  void add(const std::string& stored, const std::string& name, std::string_view plain);
  // What was taken off, for the console; empty: nothing.
  std::vector<std::string> notes() const;

 private:
  std::string origin_;
  std::map<std::string, std::string> stored_;
  std::string first_, first_plain_;  // of the names that were changed
  int64_t changed_ = 0;
};

// "optimizer.state.WEIGHT.exp_avg" as "optimizer.state.", WEIGHT and ".exp_avg". A weight has only the middle.
struct NameParts {
  std::string before, weight, after;
  // The name of the same for another weight.
  std::string of(const std::string& other) const { return before + other + after; }
};
NameParts parts_of(std::string_view name);

// State of a training besides its weights, by Hearth's name: moments, and what other programs call lr_scheduler,
// dataloader, train_state.
bool is_training_state(std::string_view name);

// Tensors that programs store although they are computed: the frequencies of rotary embedding.
bool is_computed(std::string_view name);

// Whether rotary embedding acts on the rows: of queries' and keys' matrices, biases and norms, by Hearth's name.
// Moments of these count, too.
bool has_pairs(std::string_view name);

// How ranks of tensor parallel share a tensor: its rows (dimension 0) or columns (1), by whole heads or not. Without a
// dimension each has the whole, or the name is not known.
enum class HeadKind { kNone, kQueries, kKeys };
struct RankCut {
  std::optional<size_t> dimension;
  HeadKind heads = HeadKind::kNone;
  bool operator==(const RankCut&) const = default;
};
RankCut cut_of(std::string_view name);        // also of a name with `*` for the layer's number
HeadKind heads_named(std::string_view name);  // "queries", "keys"

// The number at the pattern's `*`, or nothing without one; nullopt: another name. A number is as programs write it.
std::optional<std::string_view> matched(std::string_view pattern, std::string_view name);
// The numbers at all `*` of a pattern, each of digits and at most `most`; nullopt: another name.
std::optional<std::vector<int64_t>> numbers_in(std::string_view pattern, std::string_view name, int64_t most);
// The pattern with the number in place of its `*`.
std::string numbered(std::string pattern, std::string_view number);

}  // namespace hearth::convert
