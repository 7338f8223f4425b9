// SPDX-License-Identifier: Apache-2.0
#include "config/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "config/derived.h"

namespace hearth::config {
namespace {

constexpr std::string_view kFamilyFile = "family.toml", kEnding = ".toml";
constexpr std::string_view kOtherFiles[] = {kFamilyFile, "names.toml", "ranks.toml"};

// "qwen3.toml" -> "qwen3"; empty for a file without flavors.
std::string_view flavors_of(const FamilyFile& file) {
  if (std::find(std::begin(kOtherFiles), std::end(kOtherFiles), file.name) != std::end(kOtherFiles)) return {};
  return file.name.substr(0, file.name.size() - kEnding.size());
}

bool has_flavors(std::string_view family) {
  const std::span<const FamilyFile> files = family_files();
  return std::any_of(files.begin(), files.end(),
                     [&](const FamilyFile& file) { return file.family == family && !flavors_of(file).empty(); });
}

// The model.name that a file stands for: its flavors', or that of a family without flavors; empty: none.
std::string_view model_name_of(const FamilyFile& file) {
  const bool is_alone = file.name == kFamilyFile && !has_flavors(file.family);
  return is_alone ? file.family : flavors_of(file);
}

const Field& field_named(const FamilyFile& file, const TomlEntry& entry, const std::string& key) {
  const Field* field = find_field("model." + key);
  HEARTH_CHECK(field != nullptr, "src/models/{}/{}:{}: no key model.{}", file.family, file.name, entry.line, key);
  return *field;
}

// The value as the key has it.
Setting setting_of(const FamilyFile& file, const TomlEntry& entry) {
  const Field& field = field_named(file, entry, entry.key);
  const Value value = typed(file, entry, field.default_value());
  HEARTH_CHECK(field.limits.allow(value), "src/models/{}/{}:{}: {}", file.family, file.name, entry.line, entry.shown);
  return {entry.key, value};
}

SlidingWindowUse window_named(const std::string& name) {
  if (name == "always") return SlidingWindowUse::kAlways;
  if (name == "switched") return SlidingWindowUse::kSwitched;
  if (name == "from_layer") return SlidingWindowUse::kFromLayer;
  HEARTH_CHECK(name == "by_layer", "window = {}", name);
  return SlidingWindowUse::kByLayer;
}

// Sets a member of the class from a field of [hugging_face].
void set_class(HuggingFaceClass& c, const FamilyFile& file, const TomlEntry& entry) {
  const auto set = [&](std::string_view name, auto& member) { return take(file, entry, name, member); };
  std::string window, pairs;
  const bool is_known =
      set("model_type", c.model_type) || set("architecture", c.architecture) || set("has_head_dim", c.has_head_dim) ||
      set("is_encoder", c.is_encoder) || set("max_position_embeddings", c.max_position_embeddings) ||
      set("num_key_value_heads", c.num_key_value_heads) || set("head_dim", c.head_dim) ||
      set("sliding_window", c.sliding_window) || set("rms_norm_eps", c.rms_norm_eps) ||
      set("rope_theta", c.rope_theta) || set("tie_word_embeddings", c.tie_word_embeddings) ||
      set("num_attention_heads", c.num_attention_heads) || set("vocab_size", c.vocab_size) ||
      set("original_max_position_embeddings", c.original_max_position_embeddings) ||
      set("full_attention_interval", c.full_attention_interval) ||
      set("first_full_attention_layer", c.first_full_attention_layer) ||
      set("max_window_layers", c.max_window_layers) || set("no_rope_layer_interval", c.no_rope_layer_interval) ||
      set("has_multipliers", c.has_multipliers) || set("window_pattern", c.window_pattern) ||
      set("full_layers_rotate", c.full_layers_rotate) || set("query_pre_attn_scalar", c.query_pre_attn_scalar) ||
      set("window", window) || set("rope_pairs", pairs) || set("rope_types", c.rope_types) ||
      set("partial_rotary", c.partial_rotary) || set("query_position_scale", c.query_position_scale) ||
      set("layered_rope", c.layered_rope) || set("rope_local_theta", c.rope_local_theta) ||
      set("experts", c.experts.count_field) || set("num_experts", c.experts.count) ||
      set("num_experts_per_tok", c.experts.top_k) || set("moe_intermediate_size", c.experts.width) ||
      set("mlp_only_layers", c.experts.has_dense_layers) || set("mup_enabled", c.has_mup) ||
      set("scales_embeddings", c.scales_embeddings) || set("prediction_layers", c.prediction_layers) ||
      set("rotary_dim", c.has_rotary_dim) || set("top_k_field", c.experts.top_k_field) ||
      set("moe_layer_end_index", c.experts.has_end_index) || set("other_types", c.other_types) ||
      set("scales_scores", c.scales_scores) || set("needs_rope", c.needs_rope) || set("mxfp4", c.experts.may_be_mxfp4);
  HEARTH_CHECK(is_known, "src/models/{}/{}:{}: [hugging_face] has no {}", file.family, file.name, entry.line,
               entry.key);
  if (!window.empty()) c.window = window_named(window);
  if (!pairs.empty()) c.rope_pairs = find_choice<RopePairs>(pairs).value();
}

FieldKey* find_field_key(std::vector<FieldKey>& keys, std::string_view field) {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const FieldKey& key) { return key.field == field; });
  return found == keys.end() ? nullptr : &*found;
}

Family read_family(const FamilyFile& file) {
  Family family;
  family.name = file.family;
  for (const TomlEntry& entry : entries_of(file)) {
    if (entry.key.empty()) continue;  // a section
    if (entry.section == "model") {
      family.model.push_back(setting_of(file, entry));
    } else if (entry.section == "hugging_face_writes") {
      family.hugging_face.writes.push_back({entry.key, *entry.value});
    } else if (entry.section == "hugging_face_reads") {
      family.hugging_face.reads.push_back({entry.key, typed(file, entry, Value(std::vector<std::string>()))});
    } else if (entry.section == "hugging_face_keys") {
      const auto key = std::get<std::string>(typed(file, entry, Value(std::string())));
      family.hugging_face.keys.push_back({entry.key, key, field_named(file, entry, key).default_value()});
    } else if (entry.section == "hugging_face_defaults") {
      FieldKey* const field = find_field_key(family.hugging_face.keys, entry.key);
      HEARTH_CHECK(field != nullptr, "src/models/{}/{}:{}: no field {}", file.family, file.name, entry.line, entry.key);
      field->missing = typed(file, entry, field->missing);
    } else {
      HEARTH_CHECK(entry.section == "hugging_face", "src/models/{}/{}: [{}]", file.family, file.name, entry.section);
      set_class(family.hugging_face, file, entry);
    }
  }
  return family;
}

void read_flavors(const FamilyFile& file, std::vector<Flavor>& flavors) {
  Flavor common{std::string(flavors_of(file)), {}, {}};
  for (const TomlEntry& entry : entries_of(file)) {
    if (entry.key.empty()) {
      flavors.push_back(common);
      flavors.back().name = entry.section;
      continue;
    }
    Flavor& flavor = entry.section.empty() ? common : flavors.back();
    if (entry.key == "vocabulary")
      flavor.vocabulary = std::get<int64_t>(typed(file, entry, Value(flavor.vocabulary)));
    else
      flavor.model.push_back(setting_of(file, entry));
  }
}

void set(Model& model, const std::vector<Setting>& settings) {
  RunConfig config;
  config.model = std::move(model);
  for (const Setting& setting : settings) find_field("model." + setting.key)->set(config, 0, setting.value);
  model = std::move(config.model);
}

// Keys that every family leaves open, although they decide what a model computes.
bool is_open(std::string_view key) {
  static constexpr std::string_view kOpen[] = {"rope_pairs", "attention_scope", "enable_weight_tying", "rope_type",
                                               "rope_truncate"};
  return std::find(std::begin(kOpen), std::end(kOpen), key) != std::end(kOpen);
}

// Keys of positions that the family's class has no field for.
void add_rope_differences(const HuggingFaceClass& type, const Model& model, std::vector<std::string>& found) {
  const auto add = [&](std::string_view key, double value) {
    found.push_back(fmt::format("model.{} = {}", key, value));
  };
  if (model.partial_rotary_factor != 1 && type.partial_rotary == 0)
    add("partial_rotary_factor", model.partial_rotary_factor);
  if ((model.query_position_scale != 0) != type.query_position_scale)
    add("query_position_scale", model.query_position_scale);
  if (model.rope_local_theta != 0 && !type.layered_rope) add("rope_local_theta", model.rope_local_theta);
  if (model.rope_mscale_all_dim != 0 && !type.scales_scores) add("rope_mscale_all_dim", model.rope_mscale_all_dim);
  const std::string_view rope = name_of(model.rope_scaling_factor == 1 ? RopeType::kDefault : model.rope_type);
  const std::vector<std::string>& types = type.rope_types;
  if (!types.empty() && std::find(types.begin(), types.end(), rope) == types.end())
    found.push_back(fmt::format("model.rope_type = \"{}\"", rope));
}

constexpr std::string_view kNoRopeInterval = "no_rope_layer_interval";
constexpr std::string_view kMultipliers[] = {"embedding_multiplier", "residual_multiplier", "attention_multiplier",
                                             "logits_divisor"};
bool is_multiplier(std::string_view key) {
  return std::find(std::begin(kMultipliers), std::end(kMultipliers), key) != std::end(kMultipliers);
}

bool is_expert_number(std::string_view key) {
  static constexpr std::string_view kNumbers[] = {"route_scale", "num_shared_experts", "num_expert_groups",
                                                  "num_limited_groups"};
  return std::find(std::begin(kNumbers), std::end(kNumbers), key) != std::end(kNumbers);
}

// Latent attention is an option, and its sizes say how rows of its matrices are cut.
constexpr std::string_view kLatents[] = {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
                                         "v_head_dim"};
bool is_latent_size(std::string_view key) {
  return std::find(std::begin(kLatents), std::end(kLatents), key) != std::end(kLatents);
}

// A choice, a switch, or one of a few numbers: others are sizes.
bool is_option(const Field& field) {
  const Value value = field.default_value();
  return field.section == "model" && field.at_resume == AtResume::kRefuse && !is_open(field.key) &&
         (std::holds_alternative<bool>(value) || std::holds_alternative<std::string>(value) ||
          field.key == kNoRopeInterval || is_expert_number(field.key) || is_multiplier(field.key) ||
          is_latent_size(field.key));
}

// Whether the family's config.json has a field for the key, so that its models differ in it.
bool is_field_of(const HuggingFaceClass& type, std::string_view key) {
  if (key == "embedding_multiplier") return type.has_mup || type.scales_embeddings || type.has_multipliers;
  for (const FieldKey& field : type.keys)
    if (field.key == key) return true;
  if (key == "attention_multiplier") return type.has_multipliers || type.query_pre_attn_scalar > 0;
  if (key == kNoRopeInterval) return type.no_rope_layer_interval > 0 || !type.full_layers_rotate;
  return is_multiplier(key) && type.has_multipliers;
}

}  // namespace

bool names_windowed_layers(SlidingWindowUse window) {
  return window != SlidingWindowUse::kNever && window != SlidingWindowUse::kAlways;
}

std::vector<TomlEntry> entries_of(const FamilyFile& file) {
  std::vector<TomlEntry> entries;
  const std::optional<TomlError> error = parse_toml(file.text, entries);
  HEARTH_CHECK(!error, "src/models/{}/{}:{}: {}", file.family, file.name, error->line, error->what);
  return entries;
}

Value typed(const FamilyFile& file, const TomlEntry& entry, const Value& type) {
  const std::optional<Value> value = entry.value ? as_type(*entry.value, type) : std::nullopt;
  HEARTH_CHECK(value, "src/models/{}/{}:{}: {} = {}: not {}", file.family, file.name, entry.line, entry.key,
               entry.shown, type_text(type));
  return *value;
}

const Value* Family::find(std::string_view key) const {
  const auto found = std::find_if(model.begin(), model.end(), [key](const Setting& s) { return s.key == key; });
  return found == model.end() ? nullptr : &found->value;
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> read;
    for (const FamilyFile& file : family_files()) {
      if (file.name == kFamilyFile) read.push_back(read_family(file));
    }
    return read;
  }();
  return all;
}

const Family& find_family(std::string_view name) {
  for (const Family& family : families()) {
    if (family.name == name) return family;
  }
  HEARTH_CHECK(false, "no folder src/models/{}", name);
}

const Family& family_of(const Model& model) {
  for (const FamilyFile& file : family_files()) {
    if (!model.name.empty() && model_name_of(file) == model.name) return find_family(file.family);
  }
  return find_family("llama");
}

void set_key(Model& model, std::string_view key, const Value& value) { set(model, {{std::string(key), value}}); }

Value key_of(const Model& model, std::string_view key) {
  RunConfig config;
  config.model = model;
  return find_field(fmt::format("model.{}", key))->value(config);
}

void apply(const Family& family, Model& model) {
  set(model, family.model);
  if (&family_of(model) == &family) return;
  for (const FamilyFile& file : family_files()) {
    if (file.family != family.name || model_name_of(file).empty()) continue;
    model.name = model_name_of(file);
    return;
  }
}

bool is_block_option(std::string_view name) {
  const Field* field = find_field(name);
  return field != nullptr && is_option(*field);
}

std::vector<std::string> differences(const Family& family, const Model& model) {
  RunConfig config;
  config.model = model;
  std::vector<std::string> found;
  for (const Field& field : fields()) {
    if (field.section != "model") continue;
    const Value* own = family.find(field.key);
    if (own == nullptr && !is_option(field)) continue;
    if (is_field_of(family.hugging_face, field.key)) continue;
    const Value value = field.value(config);
    if (value == (own != nullptr ? *own : field.default_value())) continue;
    found.push_back(value == Value(true) ? field.name() : fmt::format("{} = {}", field.name(), to_toml_value(value)));
  }
  const SlidingWindowUse window = family.hugging_face.window;
  if (model.sliding_window > 0 && window == SlidingWindowUse::kNever)
    found.push_back(fmt::format("model.sliding_window = {}", model.sliding_window));
  if ((model.num_experts > 0) != family.hugging_face.experts.exist())
    found.push_back(fmt::format("model.num_experts = {}", model.num_experts));
  if (is_field_of(family.hugging_face, "kv_lora_rank") && !model.has_latents())
    found.emplace_back("model.kv_lora_rank = 0");
  const int64_t windowed = count_windowed_layers(model);
  if (windowed > 0 && windowed < model.n_layers && !names_windowed_layers(window))
    found.push_back(fmt::format("model.sliding_window in {} of {} layers", windowed, model.n_layers));
  if (model.head_dim > 0 && !family.hugging_face.has_head_dim)
    found.push_back(fmt::format("model.head_dim = {}", model.head_dim));
  add_rope_differences(family.hugging_face, model, found);
  return found;
}

const Family& nearest_family(const Model& model) {
  RunConfig config;
  config.model = model;
  // Where several are equally near: the model's name if its family computes the model, then more keys of its own that
  // the model has, then the name, then Llama. A GLM-4.5 with norms of heads stays one, although dots.llm1 computes it.
  const Family& named = family_of(model);
  const auto nearness = [&](const Family& family) {
    const auto own = std::count_if(family.model.begin(), family.model.end(), [&](const Setting& setting) {
      return find_field("model." + setting.key)->value(config) == setting.value;
    });
    const int64_t different = std::ssize(differences(family, model));
    const bool is_named = &family == &named;
    return std::tuple(-different, is_named && different == 0, own, is_named, family.name == "llama");
  };
  return *std::max_element(families().begin(), families().end(),
                           [&](const Family& a, const Family& b) { return nearness(a) < nearness(b); });
}

const std::vector<Flavor>& flavors() {
  static const std::vector<Flavor> all = [] {
    std::vector<Flavor> read;
    for (const FamilyFile& file : family_files()) {
      if (!flavors_of(file).empty()) read_flavors(file, read);
    }
    return read;
  }();
  return all;
}

const Flavor* find_flavor(std::string_view model_name, std::string_view name) {
  for (const Flavor& flavor : flavors()) {
    if (flavor.model_name == model_name && flavor.name == name) return &flavor;
  }
  return nullptr;
}

std::string flavor_names(std::string_view model_name) {
  std::string names;
  for (const Flavor& flavor : flavors()) {
    if (flavor.model_name == model_name) names.append(names.empty() ? "" : ", ").append(flavor.name);
  }
  return names;
}

Model model_of(const Flavor& flavor) {
  Model model;
  model.name = flavor.model_name;
  model.flavor = flavor.name;
  apply(family_of(model), model);
  set(model, flavor.model);
  return model;
}

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  for (const FamilyFile& file : family_files()) {
    if (const std::string_view name = model_name_of(file); !name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace hearth::config
