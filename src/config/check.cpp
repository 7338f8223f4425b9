// SPDX-License-Identifier: Apache-2.0
#include "config/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/error.h"
#include "base/file.h"
#include "base/quantity.h"
#include "config/derived.h"
#include "config/families.h"
#include "config/fields.h"
#include "config/rules.h"
#include "hub/name.h"

namespace hearth::config {
namespace {

void check_head_width(Rules& rules, const Model& m) {
  if (m.has_latents()) return check_latent(rules, m);
  const bool given = m.head_dim > 0, divides = m.dim % m.n_heads == 0;
  const int64_t width = head_width(m);
  const std::string text =
      given ? fmt::format("model.head_dim = {}", width)
            : fmt::format("the head width model.dim / model.n_heads = {} / {} = {}", m.dim, m.n_heads, width);
  const std::vector<std::string_view> keys = given ? std::vector<std::string_view>{"model.head_dim"}
                                                   : std::vector<std::string_view>{"model.n_heads", "model.dim"};
  rules.require(given || divides, "model.n_heads", "does not divide", "model.dim",
                "every head has dim / n_heads elements; give model.head_dim for another width");
  rules.require((!given && !divides) || width % 2 == 0, keys, fmt::format("{} is odd", text),
                "make it even: rotary embedding turns pairs of elements");
  rules.require(width <= kMaxHeadWidth, keys, fmt::format("{} is larger than {}", text, kMaxHeadWidth),
                given ? "give a narrower head: the attention kernels do not support wider ones"
                      : "give more heads: the attention kernels do not support wider heads");
}

void check_model(Rules& rules, const Model& m) {
  rules.require(m.flavor.empty() || find_flavor(m.name, m.flavor) != nullptr, {"model.flavor", "model.name"},
                fmt::format("model.name = \"{}\" has no model.flavor = \"{}\"", m.name, m.flavor),
                flavor_names(m.name).empty() ? "it has none: give the sizes, such as model.dim"
                                             : fmt::format("its flavors: {}", flavor_names(m.name)));
  const int64_t kv_heads = m.n_kv_heads > 0 ? m.n_kv_heads : m.n_heads;
  check_head_width(rules, m);
  rules.require(m.n_heads % kv_heads == 0, {"model.n_kv_heads", "model.n_heads"},
                fmt::format("model.n_kv_heads = {} does not divide model.n_heads = {}", kv_heads, m.n_heads),
                "every key/value head serves n_heads / n_kv_heads query heads");
  rules.require(!m.has_latents() || !(m.qkv_bias || m.qk_norm || m.attention_gate), {"model.kv_lora_rank"},
                "model.kv_lora_rank does not go with model.qkv_bias, model.qk_norm and model.attention_gate",
                "leave these out: latent attention has norms of its own, and no model is known that has both");
  const bool is_rms = m.norm_type == NormType::kRmsNorm || m.norm_type == NormType::kRmsNorm1p;
  rules.require(!m.qk_norm || is_rms, {"model.qk_norm", "model.norm_type"},
                fmt::format("model.qk_norm does not go with model.norm_type = \"{}\"", name_of(m.norm_type)),
                "the norm of a head is an RMSNorm: set model.norm_type = \"rmsnorm\", or leave model.qk_norm out");
  rules.require(m.hidden_dim == 0 || m.ffn_dim_multiplier == 0, {"model.ffn_dim_multiplier", "model.hidden_dim"},
                "model.hidden_dim and model.ffn_dim_multiplier are both given",
                "give the width itself (hidden_dim), or the factor (ffn_dim_multiplier)");
}

void check_experts(Rules& rules, const RunConfig& c) {
  const Model& m = c.model;
  rules.require(m.gated_ffn || m.activation != Activation::kClampedSwiglu, {"model.activation", "model.gated_ffn"},
                "clamped_swiglu is a function of w1 x and w3 x", "remove model.gated_ffn = false");
  rules.require(m.num_experts > 0 || !family_of(m).hugging_face.experts.exist(), {"model.num_experts", "model.name"},
                fmt::format("model.name = \"{}\" is a family with experts, and model.num_experts = 0", m.name),
                "give model.num_experts and model.moe_top_k, or a model.flavor");
  if (m.num_experts == 0) return;
  rules.require(m.moe_top_k <= m.num_experts, "model.moe_top_k", "is more than", "model.num_experts",
                "a token takes some of a layer's experts");
  rules.require(m.n_dense_layers < m.n_layers, "model.n_dense_layers", "leaves no layer with experts of",
                "model.n_layers", "give fewer, or remove model.num_experts");
  rules.require(m.gated_ffn, {"model.num_experts", "model.gated_ffn"}, "experts are w2 (f(w1 x) * w3 x)",
                "remove model.num_experts, or leave the feed-forward as it is by default");
  rules.require(!m.ffn_bias || m.num_shared_experts == 0, {"model.num_shared_experts", "model.ffn_bias"},
                "shared experts have no biases", "remove one of them");
  rules.require(m.score_func == ScoreFunc::kSoftmax || m.moe_z_loss_coeff == 0,
                {"model.moe_z_loss_coeff", "model.score_func"}, "the z-loss is of the denominator of a softmax",
                "remove model.moe_z_loss_coeff");
  rules.require(!m.expert_bias || m.load_balance_coeff == 0 || c.training.dtype != DType::kBFloat16,
                {"model.expert_bias", "training.dtype"}, "a bias moves by less than bfloat16 can tell apart",
                "give training.dtype = \"float32\", or model.load_balance_coeff = 0");
  const int64_t groups = m.num_expert_groups;
  rules.require(m.num_experts % groups == 0, "model.num_expert_groups", "does not divide", "model.num_experts",
                "groups are of equally many experts");
  const bool are_equal = m.num_experts % groups == 0, have_two = groups == 1 || m.num_experts >= 2 * groups;
  rules.require(!are_equal || have_two, "model.num_expert_groups", "leaves fewer than two experts in a group of",
                "model.num_experts", "a group is judged by its two best experts");
  rules.require(m.num_limited_groups <= groups, "model.num_limited_groups", "is more than", "model.num_expert_groups",
                "a token's experts are from some of the groups");
  rules.require(groups == 1 || !are_equal || !have_two ||
                    m.moe_top_k <= m.num_experts / groups * std::min(m.num_limited_groups, groups),
                {"model.moe_top_k", "model.num_limited_groups"},
                fmt::format("model.moe_top_k = {}, and {} of {} experts have {}", m.moe_top_k,
                            counted(m.num_limited_groups, "group"), m.num_experts / groups,
                            m.num_experts / groups * m.num_limited_groups),
                "give more groups, or a smaller model.moe_top_k");
  const int64_t ranks = c.parallelism.expert_parallel_degree;
  rules.require(m.num_experts % ranks == 0, "parallelism.expert_parallel_degree", "does not divide",
                "model.num_experts", "each of these ranks has equally many experts: give a degree that divides them");
  rules.require(ranks == 1 || !c.numerics.reproducible, {"parallelism.expert_parallel_degree", "numerics.reproducible"},
                "parallelism.expert_parallel_degree does not go with numerics.reproducible",
                "remove one of them: an expert adds up the tokens of several ranks in one product");
  rules.require(!c.numerics.fp8, {"model.num_experts", "numerics.fp8"},
                "the matrices of experts are not multiplied in float8", "remove numerics.fp8");
  rules.require(!c.training.cuda_graph, {"model.num_experts", "training.cuda_graph"},
                "a recorded step has the same numbers of rows each time, and experts have not",
                "remove training.cuda_graph");
}

void check_window(Rules& rules, const Model& m) {
  rules.require(m.layer_types.empty() || m.full_attention_interval == 0,
                {"model.layer_types", "model.full_attention_interval"},
                "model.layer_types and model.full_attention_interval are both given", "give one of them");
  const auto unknown = std::find_if(m.layer_types.begin(), m.layer_types.end(), [](const std::string& type) {
    return type != kFullAttention && type != kSlidingAttention;
  });
  rules.require(unknown == m.layer_types.end(), {"model.layer_types"},
                fmt::format("model.layer_types has \"{}\"", unknown == m.layer_types.end() ? "" : *unknown),
                fmt::format("a layer is \"{}\" or \"{}\"", kFullAttention, kSlidingAttention));
  rules.require(m.layer_types.empty() || std::ssize(m.layer_types) == m.n_layers,
                {"model.layer_types", "model.n_layers"},
                fmt::format("model.layer_types has {}, and model.n_layers = {}",
                            counted(std::ssize(m.layer_types), "layer"), m.n_layers),
                "give one for each layer, or model.full_attention_interval");
  rules.require(m.full_attention_interval == 0 || m.first_full_attention_layer < m.full_attention_interval,
                {"model.first_full_attention_layer", "model.full_attention_interval"},
                fmt::format("model.first_full_attention_layer = {} is not below model.full_attention_interval = {}",
                            m.first_full_attention_layer, m.full_attention_interval),
                "it is one of the first full_attention_interval layers, from 0");
  rules.require(m.sliding_window == 0 || count_windowed_layers(m) > 0,
                {"model.sliding_window", "model.full_attention_interval", "model.layer_types"},
                fmt::format("model.sliding_window = {} has no effect: no layer has it", m.sliding_window),
                "remove it, or let some layers have it");
}

void check_objective(Rules& rules, const RunConfig& c) {
  const Objective& o = c.objective;
  const bool is_encoder = family_of(c.model).hugging_face.is_encoder;
  rules.require(
      !is_encoder || o.masked(), {"objective.kind", "model.name"},
      fmt::format("model.name = \"{}\" is an encoder, and objective.kind = \"{}\" hides what follows a position",
                  c.model.name, name_of(o.kind)),
      "set objective.kind = \"masked_lm\"");
  rules.require(o.mask_token.empty() || o.mask_id < 0, {"objective.mask_id", "objective.mask_token"},
                "objective.mask_token and objective.mask_id are both given", "give one of them");
  rules.require(!o.masked() || o.mask_replace_prob + o.random_replace_prob <= 1 + 1e-12,
                {"objective.random_replace_prob", "objective.mask_replace_prob"},
                fmt::format("objective.mask_replace_prob = {} and objective.random_replace_prob = {} are more than 1",
                            o.mask_replace_prob, o.random_replace_prob),
                "they are shares of the hidden positions; BERT has 0.8 and 0.1");
  rules.require(c.model.vocab_size == 0 || o.mask_id < c.model.vocab_size, {"objective.mask_id", "model.vocab_size"},
                fmt::format("objective.mask_id = {} is outside model.vocab_size = {}", o.mask_id, c.model.vocab_size),
                "give an id below it");
  rules.require(!o.masked() || c.data.stride == Stride::kExact, "data.stride", "does not go with", "objective.kind",
                "remove data.stride: masked sequences follow each other without overlap, and predict their own tokens");
  rules.require(!o.diffuses() || c.validation.generate.empty(), "validation.generate", "does not go with",
                "objective.kind", "remove it; `hearth generate` makes texts from the checkpoints");
}

void check_memory(Rules& rules, const Memory& m) {
  const auto check_amount = [&rules](std::string_view key, const std::string& amount, std::string_view example) {
    rules.require(amount.empty() || parse_bytes(amount).has_value(), {key},
                  fmt::format("{} = {} is not an amount of memory", key, to_toml_value(amount)),
                  fmt::format("write a number and B, KiB, MiB, GiB, TiB, kB, MB, GB or TB: \"{}\"", example));
  };
  check_amount("memory.limit", m.limit, "48 GiB");
  check_amount("memory.margin", m.margin, "2 GiB");
}

void check_schedule(Rules& rules, const RunConfig& c) {
  const LrScheduler& s = c.lr_scheduler;
  rules.require(s.warmup_steps == 0 || s.warmup_fraction == 0,
                {"lr_scheduler.warmup_fraction", "lr_scheduler.warmup_steps"},
                "lr_scheduler.warmup_steps and lr_scheduler.warmup_fraction are both given", "give one of them");
  // The default warm-up is cut to the run's steps, with a note (plan/optimizer/lr_schedule.h). Only a given one is an
  // error.
  const bool may_end_in_it = s.rule == ScheduleRule::kTorchtitan2024 || s.rule == ScheduleRule::kTorchtitan2025;
  rules.require(c.training.steps == 0 || s.warmup_steps <= c.training.steps || may_end_in_it ||
                    !rules.given("lr_scheduler.warmup_steps"),
                "lr_scheduler.warmup_steps", "is more than", "training.steps",
                "give fewer warmup_steps, or a warmup_fraction");
}

void check_batch(Rules& rules, const RunConfig& c) {
  const int64_t local = c.training.local_batch_size, ranks = c.parallelism.data_ranks();
  const int64_t global = global_batch_size(c);
  const int64_t step = local * ranks;
  const int64_t below = std::max<int64_t>(global / step, 1) * step;
  rules.require(
      global % step == 0,
      {"training.global_batch_size", "training.local_batch_size", "parallelism.data_parallel_shard_degree"},
      fmt::format(
          "training.global_batch_size = {} is not a multiple of {} = local_batch_size {} x data-parallel ranks {}",
          global, step, local, ranks),
      below < global ? fmt::format("give {} or {}, or another local_batch_size", below, below + step)
                     : fmt::format("give {}, or another local_batch_size", below));
}

void check_length(Rules& rules, const Training& t) {
  const int given = (t.steps > 0 ? 1 : 0) + (t.tokens > 0 ? 1 : 0) + (t.epochs > 0 ? 1 : 0);
  rules.require(given > 0, {"training.steps", "training.tokens", "training.epochs"},
                "the length of the training is not given",
                "give one of training.steps, training.tokens and training.epochs");
  rules.require(given < 2, {"training.steps", "training.tokens", "training.epochs"},
                fmt::format("the length of the training is given {} times: steps = {}, tokens = {}, epochs = {}",
                            given == 2 ? "two" : "three", t.steps, t.tokens, t.epochs),
                "keep one of training.steps, training.tokens and training.epochs; set the others to 0 or remove them");
}

// Checks that `path` is a dataset at all; opening it checks that it is whole.
void check_is_dataset(Rules& rules, const RunConfig& c, const std::string& key, const std::string& path) {
  const Path folder = normal_path(c.resolve(path));
  const bool there = path_exists(folder);
  const std::string what = fmt::format("{} = {}", key, to_toml_value(path));
  rules.require(there, {key}, fmt::format("{}: {} does not exist", what, folder.string()),
                "paths start at the run file's folder; `hearth data build --out DIR ...` makes a dataset");
  rules.require(!there || path_exists(folder / "manifest.json"), {key},
                fmt::format("{}: {} holds no dataset", what, folder.string()),
                "it has no manifest.json: give the folder that `hearth data build` made; if that was interrupted, run "
                "it again");
}

bool any_positive(const std::vector<double>& weights) {
  return std::any_of(weights.begin(), weights.end(), [](double weight) { return weight > 0; });
}

void check_segments(Rules& rules, const Data& data) {
  int64_t last = 0;
  for (size_t i = 0; i < data.segment.size(); ++i) {
    const DataSegment& segment = data.segment[i];
    const std::string name = fmt::format("data.segment.{}", i);
    rules.require(
        segment.weights.size() == data.source.size(), {name + ".weights", name},
        fmt::format("{}.weights has {} numbers for {} sources", name, segment.weights.size(), data.source.size()),
        "give one for each [[data.source]], in their order");
    rules.require(segment.weights.empty() || any_positive(segment.weights), {name + ".weights", name},
                  fmt::format("{}.weights are all 0: nothing would be read", name), "give one source a weight");
    rules.require(segment.from_tokens > last, {name + ".from_tokens", name},
                  fmt::format("{}.from_tokens = {} does not follow {}", name, segment.from_tokens, last),
                  "put the segments in the order of their from_tokens");
    last = segment.from_tokens;
  }
}

// Rules for orders that need tables: the order and the mixture of GPT-NeoX, and best-fit packing.
void check_order(Rules& rules, const RunConfig& c) {
  const Data& data = c.data;
  const bool neox_order = data.order == DataOrder::kNeox, neox_rule = data.weight_rule == WeightRule::kNeox;
  const bool best_fit = data.packing == Packing::kBestFit;
  rules.require(!neox_order || data.stride == Stride::kNeox, "data.order", "does not go with", "data.stride",
                "set data.stride = \"neox\": GPT-NeoX's order needs GPT-NeoX's sequences");
  rules.require(!neox_order || !best_fit, "data.order", "does not go with", "data.packing",
                "remove one of them: GPT-NeoX's order needs GPT-NeoX's sequences");
  rules.require(!best_fit || data.stride == Stride::kExact, "data.packing", "does not go with", "data.stride",
                "remove data.stride: with best_fit every token is an input once");
  rules.require(!neox_order || data.source.size() < 2 || neox_rule, {"data.order", "data.weight_rule"},
                "data.order = \"neox\" with several sources needs data.weight_rule = \"neox\"",
                "set it: the length of GPT-NeoX's tables follows from its rule");
  rules.require(!neox_order || c.training.seed < int64_t{1} << 32, {"training.seed", "data.order"},
                fmt::format("training.seed = {} is too large for data.order = \"neox\"", c.training.seed),
                "give one below 4294967296, as NumPy's RandomState takes it; GPT-NeoX's default is 1234");
  rules.require((!neox_order && !best_fit) || c.training.seq_len < 1 << 20,
                {"training.seq_len", best_fit ? "data.packing" : "data.order"},
                fmt::format("training.seq_len = {} is too long for a table of sequences", c.training.seq_len),
                "give one below 1048576, or leave data.order and data.packing out");
  if (!neox_rule) return;
  rules.require(data.source.size() < 255, {"data.weight_rule"},
                fmt::format("data.weight_rule = \"neox\" with {} sources", data.source.size()),
                "give fewer than 255, or leave it out");
  rules.require(data.segment.empty(), {"data.weight_rule", "data.segment.0"},
                "data.weight_rule = \"neox\" does not go with [[data.segment]]",
                "remove one of them: GPT-NeoX's weights never change during a training");
  rules.require(
      data.weight_unit == WeightUnit::kTokens, {"data.weight_unit", "data.weight_rule"},
      fmt::format("data.weight_rule = \"neox\" does not go with data.weight_unit = \"{}\"", name_of(data.weight_unit)),
      "remove data.weight_unit: GPT-NeoX's weights are shares of the sequences");
  for (size_t i = 0; i < data.source.size(); ++i) {
    const std::string name = fmt::format("data.source.{}", i);
    rules.require(data.source[i].weight > 0, {name + ".weight", name, "data.weight_rule"},
                  fmt::format("{}.weight = 0 does not go with data.weight_rule = \"neox\"", name),
                  "remove the source: GPT-NeoX's rule would still draw from it at times");
  }
}

void check_data(Rules& rules, const RunConfig& c, Purpose purpose) {
  const Data& data = c.data;
  const bool given = !data.path.empty() || !data.source.empty();
  const bool with_files = purpose == Purpose::kTrain || purpose == Purpose::kBench;
  rules.require(given || (purpose != Purpose::kTrain && purpose != Purpose::kImport), {"data.path"},
                "data.path is not given", "make a dataset with `hearth data build --out DIR ...` and give DIR");
  rules.require(data.path.empty() || data.source.empty(), {"data.path"}, "data.path and [[data.source]] are both given",
                "make data.path one of the sources");
  if (!data.path.empty() && with_files) check_is_dataset(rules, c, "data.path", data.path);
  std::vector<double> weights;
  for (size_t i = 0; i < data.source.size(); ++i) {
    const std::string name = fmt::format("data.source.{}", i);
    rules.require(!data.source[i].path.empty(), {name + ".path", name}, fmt::format("{}.path is not given", name),
                  "make a dataset with `hearth data build --out DIR ...` and give DIR");
    if (!data.source[i].path.empty() && with_files) check_is_dataset(rules, c, name + ".path", data.source[i].path);
    weights.push_back(data.source[i].weight);
  }
  rules.require(data.source.empty() || any_positive(weights), {"data.source.0.weight", "data.source.0"},
                "the weights of data.source are all 0: nothing would be read", "give one source a weight");
  if (!data.source.empty()) check_segments(rules, data);
  check_order(rules, c);
}

void check_validation(Rules& rules, const RunConfig& c, bool with_files) {
  const Validation& v = c.validation;
  for (size_t i = 0; i < v.set.size(); ++i) {
    const std::string name = fmt::format("validation.set.{}", i), &called = v.set[i].name;
    const bool plain = called.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
                       std::string::npos;
    rules.require(!called.empty() && plain, {name + ".name", name},
                  called.empty() ? fmt::format("{}.name is not given", name)
                                 : fmt::format("{}.name = \"{}\" cannot be part of a key in the log", name, called),
                  "give letters, digits, - and _");
    const auto same = std::find_if(v.set.begin(), v.set.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&called](const ValidationSet& set) { return set.name == called; });
    rules.require(called.empty() || same == v.set.begin() + static_cast<std::ptrdiff_t>(i), {name + ".name", name},
                  fmt::format("two sets of [[validation.set]] are called \"{}\"", called), "rename one");
    rules.require(!v.set[i].path.empty(), {name + ".path", name}, fmt::format("{}.path is not given", name),
                  "give a folder made by `hearth data build`");
    if (!v.set[i].path.empty() && with_files) check_is_dataset(rules, c, name + ".path", v.set[i].path);
  }
}

void check_extra_steps(Rules& rules, const std::vector<double>& steps) {
  const auto fraction =
      std::find_if(steps.begin(), steps.end(), [](double step) { return step < 1 || step != std::floor(step); });
  rules.require(fraction == steps.end(), {"checkpoint.extra_steps"},
                fmt::format("checkpoint.extra_steps has {}", fraction == steps.end() ? 0 : *fraction),
                "give whole numbers of steps, from 1");
}

// A run with checkpoints of its own continues from them and does not need the initial one.
void check_initial_load(Rules& rules, const RunConfig& c) {
  const std::string& given = c.checkpoint.initial_load_path;
  if (given.empty() || path_exists(c.checkpoint_folder())) return;
  const std::string key = fmt::format("checkpoint.initial_load_path = {}", to_toml_value(given));
  if (hub::is_name(given)) {
    try {
      hub::find_fetched(given);
    } catch (const Error& error) {
      rules.require(false, {"checkpoint.initial_load_path"}, fmt::format("{}: {}", key, error.message()), error.fix());
    }
    return;
  }
  const Path initial = normal_path(c.initial_load_path());
  rules.require(path_exists(initial), {"checkpoint.initial_load_path"},
                fmt::format("{}: {} does not exist", key, initial.string()),
                "paths start at the run file's folder; give a checkpoint, or the folder of a run for its newest one");
}

}  // namespace

void check(LoadResult& loaded, Purpose purpose) {
  if (loaded.syntax_error) return;  // a seemingly missing key may be in the unread rest
  const RunConfig& c = loaded.config;
  Rules rules(loaded);
  const bool is_training = purpose == Purpose::kTrain || purpose == Purpose::kImport;
  check_applies_when(rules, c, is_training);
  check_model(rules, c.model);
  check_rope(rules, c);
  check_experts(rules, c);
  check_window(rules, c.model);
  check_objective(rules, c);
  check_batch(rules, c);
  check_memory(rules, c.memory);
  check_optimizer(rules, c);
  check_data(rules, c, purpose);
  if (!is_training) return;
  check_schedule(rules, c);
  check_length(rules, c.training);
  check_decay_type(rules, c.lr_scheduler);
  check_validation(rules, c, purpose == Purpose::kTrain);
  check_extra_steps(rules, c.checkpoint.extra_steps);
  if (c.metrics.enable_tensorboard)
    check_own_folder(rules, c, "metrics.save_tb_folder", c.metrics.save_tb_folder,
                     "its files grow with every point: give a folder on a disk", "tb");
  check_profiling(rules, c);
  if (purpose != Purpose::kTrain) return;
  const std::string& weights = c.training.token_weights;
  rules.require(weights.empty() || path_exists(c.resolve(weights)), {"training.token_weights"},
                fmt::format("training.token_weights = {}: {} does not exist", to_toml_value(weights),
                            c.resolve(weights).lexically_normal().string()),
                "paths start at the run file's folder; `hearth data stats --token-weights FILE DIR` makes one");
  check_initial_load(rules, c);
}

}  // namespace hearth::config
