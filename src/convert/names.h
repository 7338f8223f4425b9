// SPDX-License-Identifier: Apache-2.0
// The names of weights in each dialect. A weight is looked up in names.toml of its family (src/models), then in
// Llama's. One table serves both directions. torchtitan and Meta have Llama's names only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::convert {

// Hearth's names of the two matrices that are one if weights are tied.
inline constexpr const char *kEmbedding = "tok_embeddings.weight", *kOutput = "output.weight";

// A folder of src/models.
inline constexpr std::string_view kLlama = "llama";

// Hearth's name of a tensor that Hugging Face's class of the family has, and back. Empty if the table lacks it.
std::optional<std::string> from_hugging_face(std::string_view name, std::string_view family = kLlama);
std::optional<std::string> to_hugging_face(std::string_view name, std::string_view family = kLlama);

// Several weights may be the rows of one tensor there, one after the other (Phi-3). All of Hearth's names in that
// tensor, in its order: of the weight alone for all other weights. `name`: Hearth's.
std::vector<std::string> joined_in_hugging_face(std::string_view name, std::string_view family);

// Whether these rows alternate: each head's queries, keys and values follow each other (NeoBERT).
bool alternate_by_head(std::string_view name, std::string_view family);

// All experts of a layer may be one tensor there (convert/hugging_face/stacked.h). Hearth's names of the weights whose
// columns alternate in it, each with a `*` for the expert's number; empty: no such tensor. `name`: Hugging Face's.
std::vector<std::string> stacked_in_hugging_face(std::string_view name, std::string_view family);
// The number of weights whose columns alternate there, and the weight's place among them; count 0: not stacked. `name`:
// Hearth's.
struct StackedPlace {
  int64_t count = 0, place = 0;
};
StackedPlace stacked_place(std::string_view name, std::string_view family);

// Whether the vector is a matrix of one row there (ERNIE 4.5's biases of experts). `name`: Hearth's.
bool is_row_in_hugging_face(std::string_view name, std::string_view family);

// The same for torchtitan 0.3 (2026). Hearth's names are torchtitan's of 2025.
std::optional<std::string> from_torchtitan(std::string_view name);
std::optional<std::string> to_torchtitan(std::string_view name);

// The same for LLaDA's code (convert/hugging_face/llada.h).
std::optional<std::string> from_llada(std::string_view name);
std::optional<std::string> to_llada(std::string_view name);

// The name without "model." before it, which torchtitan wrote until mid 2025.
inline std::string_view without_model(std::string_view name) {
  return name.starts_with("model.") ? name.substr(6) : name;
}

// The name without the parts that wrappers of modules put into it: "module." (DDP), "_orig_mod." (torch.compile),
// "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_forward_module.", at any place.
std::string unwrapped(std::string_view name);

// Hearth's name of a weight with one of Hugging Face's names. That name may have the parts of wrappers, a second
// "model." in front, or no "model." (LlamaModel's files). Empty: not known.
std::optional<std::string> from_wrapped_hugging_face(std::string_view name, std::string_view family = kLlama);

// Collects which stored names became which of Hearth's. Throws user_error if two stored names are the same weight.
class Renaming {
 public:
  // `origin`: the files, for errors.
  explicit Renaming(std::string origin) : origin_(std::move(origin)) {}
  // `plain`: the stored name in the file's own dialect, without wrappers' parts.
  void add(const std::string& stored, const std::string& name, std::string_view plain);
  // The parts of names that were removed, for the console; empty: none.
  std::vector<std::string> notes() const;

 private:
  std::string origin_;
  std::map<std::string, std::string> stored_;
  std::string first_, first_plain_;  // the first name that was changed
  int64_t changed_ = 0;
};

// "optimizer.state.WEIGHT.exp_avg" as "optimizer.state.", WEIGHT and ".exp_avg". A weight has only the middle.
struct NameParts {
  std::string before, weight, after;
  // The name of the same moment of another weight.
  std::string of(const std::string& other) const { return before + other + after; }
};
NameParts parts_of(std::string_view name);

// Whether a tensor, by Hearth's name, is training state and no weight: moments, and what other programs call
// lr_scheduler, dataloader, train_state.
bool is_training_state(std::string_view name);

// Whether a stored tensor can be computed, and is not read: the frequencies of rotary embedding.
bool is_computed(std::string_view name);

// Whether rotary embedding acts on the tensor's rows, by Hearth's name: matrices, biases and norms of queries and keys,
// and their moments.
bool has_pairs(std::string_view name);

// How ranks of tensor parallel share a tensor: by rows (dimension 0) or columns (1), in whole heads or not. Without a
// dimension each rank has the whole tensor, or the name is not known.
enum class HeadKind { kNone, kQueries, kKeys };
struct RankCut {
  std::optional<size_t> dimension;
  HeadKind heads = HeadKind::kNone;
  bool operator==(const RankCut&) const = default;
};
RankCut cut_of(std::string_view name);        // also of a name with `*` for the layer's number
HeadKind heads_named(std::string_view name);  // "queries", "keys"

// The numbers at the pattern's `*`: of the layer, and of the expert; nullopt if the name does not match. Numbers with
// leading zeros do not match.
std::optional<std::vector<std::string_view>> matched(std::string_view pattern, std::string_view name);
// The numbers at all `*` of a pattern, each of digits and at most `most`; nullopt: another name.
std::optional<std::vector<int64_t>> numbers_in(std::string_view pattern, std::string_view name, int64_t most);
// The pattern with the numbers in place of each `*`, in their order.
std::string numbered(std::string pattern, std::span<const std::string_view> numbers);
std::string numbered(std::string pattern, int64_t number);

}  // namespace hearth::convert
