// SPDX-License-Identifier: Apache-2.0
// Families of models, and their named shapes. src/models/FAMILY/ says all that Hearth knows of a family; the build puts
// its files into the programs:
//
//   family.toml  [model]: keys of run files that all of its models have. [hugging_face]: its class in transformers, and
//                what the class takes where config.json lacks a field. [hugging_face_keys]: fields of its
//                config.json that are keys of [model]. [hugging_face_defaults]: their values where it lacks them, if
//                not the keys' own. [hugging_face_writes]: other fields of its config.json, with their only value.
//                [hugging_face_reads]: other texts that its class takes for this value
//   names.toml   names of its weights in other programs' files (convert/names.h)
//   ranks.toml   what of its weights is in the files of other programs' ranks (convert/rank_layout.h)
//   NAME.toml    the flavors of model.name = "NAME": a table of keys of [model] for each, after keys that all of them
//                have. `vocabulary`: of the published models; a run takes its tokenizer's
//
// docs/add_a_model.md is the walk through one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/fields.h"
#include "config/toml_text.h"

namespace hearth::config {

// "qwen3", "family.toml" and the content; sorted by family, then by name. The build writes this list.
struct FamilyFile {
  std::string_view family, name, text;
};
std::span<const FamilyFile> family_files();
// The entries of a file; and an entry's value, converted to the type of `type`. A mistake in a file stops the program:
// a test reads all files.
std::vector<TomlEntry> entries_of(const FamilyFile& file);
Value typed(const FamilyFile& file, const TomlEntry& entry, const Value& type);
// If the entry has this key, sets the member to its value and returns true.
template <class Member>
bool take(const FamilyFile& file, const TomlEntry& entry, std::string_view key, Member& member) {
  if (entry.key != key) return false;
  member = std::get<Member>(typed(file, entry, Value(member)));
  return true;
}

// A key of a TOML file with its value.
struct Setting {
  std::string key;
  Value value;
};

// Which layers of a model use sliding-window attention, by its config.json: a position sees only the last tokens.
enum class SlidingWindowUse {
  kNever,
  kAlways,    // all layers: sliding_window
  kSwitched,  // use_sliding_window switches it on, for the layers that layer_types or max_window_layers names
  kByLayer,   // the layers that layer_types names
  kFromLayer  // the layers from max_window_layers on, unless layer_types names them
};
bool names_windowed_layers(SlidingWindowUse window);

// A field of a class's config.json that is a key of [model], with its value where config.json lacks it.
struct FieldKey {
  std::string field, key;
  Value missing;
};

// The fields of a class that has experts, with what it takes where config.json lacks them.
struct ExpertFields {
  std::string count_field;  // the name of the number of experts; empty: the class has no experts
  int64_t count = 0, top_k = 0;
  std::string top_k_field = "num_experts_per_tok";
  int64_t width = 0;              // moe_intermediate_size; 0: it has no such field, and intermediate_size is it
  bool has_dense_layers = false;  // mlp_only_layers and decoder_sparse_step
  bool has_end_index = false;     // moe_layer_end_index: the last layer with experts; -1: the model's
  bool may_be_mxfp4 = false;      // its class reads experts of 4 bits (convert/hugging_face/stacked.h)
  bool exist() const { return !count_field.empty(); }
};

// A model as transformers knows it.
struct HuggingFaceClass {
  std::string model_type, architecture;
  std::vector<std::string> other_types;  // model types of files that the class reads, too (Kimi K2)
  SlidingWindowUse window = SlidingWindowUse::kNever;
  bool is_encoder = false;                    // its positions see both sides
  bool has_head_dim = true;                   // the width of a head is a field
  RopePairs rope_pairs = RopePairs::kHalves;  // of queries and keys in its files
  // Taken where config.json lacks the field. 0: num_key_value_heads and head_dim follow from other fields, and the next
  // two must be there.
  int64_t max_position_embeddings = 0, num_key_value_heads = 0, head_dim = 0, sliding_window = 0;
  int64_t num_attention_heads = 0, vocab_size = 0;
  double rms_norm_eps = 1e-6, rope_theta = 10000;
  bool tie_word_embeddings = false;
  int64_t full_attention_interval = 0;      // where the file lacks layer_types; 0: all layers have the window
  int64_t first_full_attention_layer = -1;  // as the key of [model]
  int64_t max_window_layers = 28;           // the first layer with a window (kSwitched, kFromLayer)
  int64_t no_rope_layer_interval = 0;       // 0: its layers all rotate, and it has no such fields
  // The field that says that every n-th layer has no window: "sliding_window_pattern" (Gemma 3, EXAONE 4),
  // "global_attn_every_n_layers" (Trinity). Empty: it has none.
  std::string window_pattern;
  bool scales_embeddings = false;       // by sqrt(dim), whatever the file says (Gemma)
  bool has_mup = false;                 // mup_enabled: embeddings are scaled by sqrt(dim)
  bool full_layers_rotate = true;       // false: layers without a window do not rotate, if others have one (EXAONE 4)
  int64_t query_pre_attn_scalar = 0;    // scores are divided by its root (Gemma 3); 0: it has no such field
  std::string prediction_layers;        // the field that counts further layers, which predict tokens beyond the next
  bool has_multipliers = false;         // Granite's four, of embeddings, branches, scores and logits, are fields
  std::vector<std::string> rope_types;  // of rope_parameters; empty: all that Hearth computes
  int64_t original_max_position_embeddings =
      0;                              // a field of the file, with this default (Phi-3); 0: of its styles alone
  double partial_rotary = 0;          // partial_rotary_factor where config.json lacks it; 0: it has no such field
  bool has_rotary_dim = false;        // rotary_dim: the number of a head's elements that rotate (MiniMax-M2)
  bool query_position_scale = false;  // it has rope_parameters.llama_4_scaling_beta
  bool scales_scores = false;         // by rope_parameters.mscale_all_dim (DeepSeek-V3)
  bool needs_rope = false;            // config.json must have rope_parameters, or rope_scaling of transformers 4
  bool layered_rope = false;          // layers with a window have a rope of their own
  double rope_local_theta = 0;        // with layered_rope: the base of theirs, where config.json lacks it
  ExpertFields experts = {};
  std::vector<FieldKey> keys;
  std::vector<Setting> writes;
  std::vector<Setting> reads;  // lists of texts
};

struct Family {
  std::string name;            // of its folder
  std::vector<Setting> model;  // keys of [model], without "model."
  HuggingFaceClass hugging_face;

  const Value* find(std::string_view key) const;  // null: `model` lacks it
};
const std::vector<Family>& families();
const Family& find_family(std::string_view name);  // must exist
// The family of model.name.
const Family& family_of(const Model& model);

// Sets a key of [model], without "model.", to a value of its type.
void set_key(Model& model, std::string_view key, const Value& value);
// Its value.
Value key_of(const Model& model, std::string_view key);
// Gives the model the keys that all models of the family have. If model.name is another family's, it changes, too.
void apply(const Family& family, Model& model);
// Whether a key such as "model.norm_type" says what blocks compute. Sizes and numbers do not. Nor do keys that every
// family leaves open: rope_pairs, attention_scope, enable_weight_tying.
bool is_block_option(std::string_view name);
// Keys of [model] that make a model compute something else than the family's models: "model.qk_norm",
// "model.norm_type = \"layernorm\"". Sizes do not count.
std::vector<std::string> differences(const Family& family, const Model& model);
// The family with the fewest differences. Ties go to the family with most keys in common, then to the first.
const Family& nearest_family(const Model& model);

// A named shape, chosen by model.name and model.flavor.
struct Flavor {
  std::string model_name, name;
  std::vector<Setting> model;  // keys of [model], without the family's
  int64_t vocabulary = 0;
};
// In the order of docs/config.md.
const std::vector<Flavor>& flavors();
// Null if there is no such flavor.
const Flavor* find_flavor(std::string_view model_name, std::string_view name);
// The flavors of a name: "7B, 13B".
std::string flavor_names(std::string_view model_name);
// The keys that a flavor and its family set; others have their defaults.
Model model_of(const Flavor& flavor);

// What model.name may be: the names with flavors, and families without.
std::vector<std::string_view> model_names();

}  // namespace hearth::config
