// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's YAML files: those of main (2026), and those of its branch of 2023 with which Llemma was trained.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "config/import/dialects.h"
#include "config/import/neox_parts.h"

namespace hearth::config {
namespace {

// Whether the file is of the branch of 2023. The keys of the feed-forward decide: main has others.
bool is_llemma(const Draft& draft) {
  const bool is_main =
      draft.first_of({"mlp_multiple_of", "intermediate_size", "expansion_factor", "use_bias_in_mlp"}) != nullptr ||
      draft.text_is("activation", "swiglu");
  return !is_main && draft.first_of({"mlp_type", "decay_lr_to", "warmup_iters"}) != nullptr;
}

// Keys of the branch in a file of main, whose program refuses them.
void refuse_llemma_keys(Draft& draft) {
  for (const auto& [name, fix] : {std::pair{"mlp_type", "activation: swiglu says it"},
                                  {"decay_lr_to", "write min_lr, a rate"},
                                  {"warmup_iters", "write warmup, a share of lr_decay_iters"}})
    if (const ForeignKey* key = draft.find(name))
      draft.refuse(*key, "the file is one of GPT-NeoX's main, by its feed-forward, and main has no such key", fix);
}

// GPT-NeoX has no defaults for these.
void need_neox_shape(Draft& draft) {
  for (const std::string_view name : {"num_layers", "hidden_size", "num_attention_heads", "seq_length", "train_iters"})
    if (!draft.has(name) && (name != "train_iters" || !draft.has("train_epochs")))
      draft.problem(fmt::format("{} is not given, and GPT-NeoX has no default for it", name),
                    "give the file that has it, too: several files are read as one");
}

void import_neox_width(Draft& draft, bool llemma) {
  constexpr double kMostWidth = 1 << 24;
  if (llemma) {
    need_value(draft, "mlp_type", {"llama"}, "regular", "the feed-forward is SwiGLU");
    need_value(draft, "activation", {"silu"}, "gelu", "the feed-forward is SwiGLU");
    draft.set("model.multiple_of", 256, draft.find("mlp_type"), "8/3 of the width, rounded up");
    return;
  }
  need_value(draft, "activation", {"swiglu"}, "gelu", "the feed-forward is SwiGLU");
  need_value(draft, "use_bias_in_mlp", {"false"}, "true", "the feed-forward has no biases");
  const auto* dim = draft.value<int64_t>("model.dim");
  if (dim == nullptr) return;
  const auto h = static_cast<double>(*dim);
  const ForeignKey* from = draft.find("intermediate_size");
  double inner = 4 * h;
  if (const auto given = draft.whole(from)) {
    inner = static_cast<double>(*given);
    if (const ForeignKey* factor = draft.find("expansion_factor"))
      draft.refuse(*factor, "intermediate_size is given, too, and GPT-NeoX refuses both", "keep one of the two");
  } else if (const auto factor = draft.number("expansion_factor")) {
    inner = std::trunc(*factor * h);
    from = draft.find("expansion_factor");
  }
  const int64_t multiple = draft.whole("mlp_multiple_of").value_or(1);
  if (!(inner >= 1 && inner <= kMostWidth) || multiple < 1 || multiple > (1 << 24))
    return draft.problem("the width of the feed-forward is out of range",
                         "see intermediate_size, expansion_factor and mlp_multiple_of");
  // megatron/model/transformer.py: a gated layer has a third of the size for each of its two halves.
  const int64_t width = round_up(static_cast<int64_t>(inner * 2 / 3) / 2, multiple);
  draft.set("model.hidden_dim", width, from, "a third of GPT-NeoX's size, for gate and input each");
}

// The branch of 2023 has num_kv_heads for its attention_type "groupedquery" alone, and main has no attention_type.
void need_neox_heads(Draft& draft, bool llemma) {
  const ForeignKey *kind_key = draft.find("attention_type"), *number_key = draft.find("num_kv_heads");
  const std::string kind = draft.text(kind_key).value_or("multihead");
  if (kind != "multihead" && number_key == nullptr)
    return draft.refuse(*kind_key, "num_kv_heads is not given", "give it, too");
  const auto number = draft.whole(number_key);
  const auto* heads = draft.value<int64_t>("model.n_heads");
  if ((llemma || kind_key != nullptr) && kind == "multihead" && number && heads != nullptr && *number != *heads)
    draft.refuse(*number_key, "attention_type is multihead, which leaves it out", "give attention_type: groupedquery");
}

void import_neox_model(Draft& draft, bool llemma) {
  import_neox_width(draft, llemma);
  need_neox_heads(draft, llemma);
  need_value(draft, "pos_emb", {"rotary"}, "learned", "positions are rotary");
  need_value(draft, "use_bias_in_attn_linear", {"false"}, "true", "attention has no biases");
  const ForeignKey* from = draft.find("norm");
  const std::string norm = draft.text(from).value_or("layernorm");
  if (norm == "rmsnorm") {
    draft.set("model.norm_type", llemma ? "rmsnorm_neox" : "rmsnorm", from,
              llemma ? "epsilon is added to the root mean square, as in 2023"
                     : "before May 2025 GPT-NeoX's was rmsnorm_neox");
    draft.take_or("model.norm_eps", "rms_norm_epsilon", 1e-8, "GPT-NeoX's default");
  } else if (norm == "layernorm" || norm == "non_parametric_layernorm") {
    if (norm == "layernorm") need_value(draft, "use_bias_in_norms", {"false"}, "true", "norms have no biases");
    draft.set("model.norm_type", norm == "layernorm" ? "layernorm" : "np_layernorm", from);
    draft.take("model.norm_eps", "layernorm_epsilon");
  } else if (from != nullptr) {
    draft.refuse(*from, "norms are RMSNorm or LayerNorm");
  }
  draft.set("model.rope_pairs", "halves", nullptr, "as GPT-NeoX rotates");
  if (!draft.is_on("no_weight_tying"))
    draft.set("model.enable_weight_tying", true, draft.find("no_weight_tying"),
              draft.has("no_weight_tying") ? "" : "GPT-NeoX's default");
  if (const ForeignKey* kinds = draft.find("attention_config")) {
    const std::string text = kinds->value.text();
    for (const std::string_view other :
         {"local", "sparse", "bigbird", "bslongformer", "gmlp", "amlp", "rwkv", "mamba"}) {
      if (text.find(other) != std::string::npos) draft.refuse(*kinds, "every layer attends to all earlier positions");
    }
  }
  const int64_t multiple = draft.whole("make_vocab_size_divisible_by").value_or(128);
  if (multiple != 1 && !draft.is_set("model.vocab_size"))
    draft.note(fmt::format(
        "GPT-NeoX pads the vocabulary to a multiple of {} x model_parallel_size. Give model.vocab_size, where its "
        "weights are to be continued.",
        multiple));
}

void import_neox_init(Draft& draft) {
  if (draft.is_set("checkpoint.initial_load_path")) return;  // nothing reads it
  draft.take_or("model.init", "init_method", "normal", "GPT-NeoX's default");
  draft.take_or("model.output_init", "output_layer_init_method", "scaled_normal", "GPT-NeoX's default");
  draft.take("model.init_std", "init_method_std");
}

// DeepSpeed's assertion: the global batch is a product. Without the number of ranks it is a multiple of a factor.
void need_neox_product(Draft& draft, const ForeignLayout& layout, int64_t micro, int64_t accumulated) {
  const ForeignKey *global_key = draft.find("train_batch_size"),
                   *accumulated_key = draft.find("gradient_accumulation_steps");
  const auto global = draft.whole(global_key);
  if (!global || accumulated_key == nullptr) return;
  const int64_t ranks = draft.options().ranks, others = bounded_product({layout.tensor.value, layout.pipeline.value});
  const int64_t data = ranks > 0 && ranks % others == 0 ? ranks / others : 0;
  // A micro-batch that is not given follows from the others.
  const int64_t product = bounded_product({std::max<int64_t>(micro, 1), accumulated, std::max<int64_t>(data, 1)});
  if (data > 0 && micro > 0 ? *global == product : *global % product == 0) return;
  const std::string ranks_text = data > 0 ? fmt::format(" x {} data-parallel ranks", data) : "";
  draft.refuse(*global_key,
               micro > 0 ? fmt::format("{} x {} accumulated{} are {}, and GPT-NeoX refuses another number", micro,
                                       accumulated, ranks_text, product)
                         : fmt::format("not a multiple of {} accumulated{}", accumulated, ranks_text),
               "mend one of the numbers in a copy of the file");
}

// deepy.py starts the ranks by itself, so what stands in front of it, or Slurm's variables, do not give their number.
void import_neox_batch(Draft& draft) {
  ForeignLayout layout;
  layout.tensor = foreign_degree(draft, {"model_parallel_size"});
  if (draft.whole("pipe_parallel_size").value_or(0) > 1)
    layout.pipeline = foreign_degree(draft, {"pipe_parallel_size"});
  const int64_t stage = draft.whole("zero_optimization.stage").value_or(0);
  layout.zero_stage = std::clamp<int64_t>(stage, 1, 3);
  if (stage == 0)
    draft.note("GPT-NeoX shared no moments (ZeRO stage 0). Hearth always shares them; results are the same.");
  const ForeignKey *global_key = draft.find("train_batch_size"),
                   *micro_key = draft.first_of({"train_micro_batch_size_per_gpu", "batch_size"});
  if (micro_key == nullptr && global_key == nullptr)
    return draft.problem("neither train_batch_size nor train_micro_batch_size_per_gpu is given", "give one of them");
  int64_t micro = draft.whole(micro_key).value_or(0);
  const int64_t global = draft.whole(global_key).value_or(0);
  const int64_t accumulated = draft.whole("gradient_accumulation_steps").value_or(1);
  if (!is_count(accumulated) || (micro_key != nullptr && !is_count(micro)))
    return draft.problem("the micro-batch or the number of accumulated ones is out of range",
                         "give whole numbers from 1");
  refuse_other_number(draft, "train_micro_batch_size_per_gpu", "batch_size");
  need_neox_product(draft, layout, micro, accumulated);
  if (global_key != nullptr) draft.set("training.global_batch_size", global, global_key);
  if (global_key != nullptr && !draft.options().layout) return set_layout(draft, layout, 1, nullptr);
  if (!resolve_layout(draft, layout, "the global batch")) return;
  if (micro_key == nullptr) micro = std::max<int64_t>(global / (layout.data() * accumulated), 1);
  if (global_key == nullptr)
    draft.set("training.global_batch_size", bounded_product({micro, accumulated, layout.data()}), micro_key,
              fmt::format("{} x {} accumulated x {} data-parallel ranks", micro, accumulated, layout.data()));
  set_layout(draft, layout, micro, micro_key != nullptr ? micro_key : global_key);
}

void import_neox_precision(Draft& draft) {
  const ForeignKey* from = draft.find("precision");
  std::string precision = draft.text(from).value_or("");
  if (!precision.empty() && precision != "bfloat16" && draft.is_on("bf16.enabled"))
    draft.refuse("bf16.enabled", fmt::format("precision is {}, and GPT-NeoX refuses both", precision),
                 "keep one of the two");
  if (precision.empty() && draft.is_on("bf16.enabled")) {
    precision = "bfloat16";
    from = draft.find("bf16.enabled");
  }
  if (precision == "bfloat16")
    draft.set("training.mixed_precision_param", "bfloat16", from);
  else if (!precision.empty() && precision != "fp32")
    draft.refuse(*from, kWhyNoFloat16, "bfloat16 takes as much memory");
  draft.set_if_on("memory.recompute", "block", "checkpoint_activations");
}

void import_neox_sets(Draft& draft) {
  draft.set("data.order", "neox", nullptr, "GPT-NeoX's own order of the same .bin and .idx files");
  draft.set("data.stride", "neox", nullptr);
  const ForeignKey* from = draft.find("train_data_paths");
  if (const auto paths = draft.texts(from)) {
    if (const ForeignKey* other = draft.find("data_path"))
      draft.refuse(*other, "train_data_paths is given, too, and GPT-NeoX refuses both", "keep one of the two");
    draft.set("data.weight_rule", "neox", from);
    const ForeignKey* weights_from = draft.find("train_data_weights");
    const auto weights = draft.numbers(weights_from);
    if (weights && weights->size() != paths->size())
      draft.refuse(*weights_from, fmt::format("{} numbers for {} paths", weights->size(), paths->size()));
    for (size_t i = 0; i < paths->size(); ++i) {
      set_source(draft, static_cast<int64_t>(i), (*paths)[i], from);
      if (weights && i < weights->size())
        draft.set(fmt::format("data.source.{}.weight", i), (*weights)[i], weights_from);
    }
  } else if (const auto path = draft.text("data_path")) {
    set_source(draft, -1, *path, draft.find("data_path"));
    draft.note(fmt::format("GPT-NeoX splits the data of data_path: `hearth data build --split {}`.",
                           draft.text("split").value_or("969,30,1")));
  } else {
    draft.problem("neither train_data_paths nor data_path is given",
                  "give the file that has them, too: several files are read as one");
  }
  const auto every = draft.whole("eval_interval");
  const auto sets = draft.texts("valid_data_paths");
  if (!sets && !draft.has("data_path")) return;
  draft.set("validation.freq", every.value_or(1000), draft.find("eval_interval"), every ? "" : "GPT-NeoX's default");
  draft.take_or("validation.steps", "eval_iters", 100, "GPT-NeoX's default");
  for (size_t i = 0; sets && i < sets->size(); ++i) {
    const ForeignKey* valid = draft.find("valid_data_paths");
    const std::string name = foreign_name((*sets)[i]), folder = fmt::format("data/{}-valid", name);
    draft.set(fmt::format("validation.set.{}.name", i), name, valid);
    draft.set(fmt::format("validation.set.{}.path", i), folder, valid, build_command(folder, (*sets)[i]));
  }
}

void import_neox_checkpoints(Draft& draft) {
  const ForeignKey *factor = draft.find("checkpoint_factor"), *scale = draft.find("checkpoint_scale");
  const ForeignKey* steps_from = draft.find("extra_save_iters");
  Numbers steps = draft.numbers(steps_from).value_or(Numbers{});
  std::erase(steps, 0.0);  // before the first step
  if (scale != nullptr && scale->value.text() == "log") {
    const double base = draft.number(factor).value_or(0);
    const auto* last = draft.value<int64_t>("training.steps");
    if (last == nullptr && draft.has("train_epochs"))
      return draft.refuse(*scale, kNeoxNeedsSteps, "give train_iters in place of train_epochs");
    const double end = last == nullptr ? 0 : static_cast<double>(*last);
    if (!(base >= 1.01)) return draft.refuse(*scale, "checkpoint_factor is less than 1.01");
    for (double power = 1; power <= end; power *= base) {
      if (steps.empty() || steps.back() != std::trunc(power)) steps.push_back(std::trunc(power));
    }
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    steps_from = scale;
    draft.set("checkpoint.interval", 0, factor, "the powers of it are extra_steps");
  } else if (scale != nullptr && scale->value.text() != "linear") {
    draft.refuse(*scale, "the scale is linear or log");
  } else {
    draft.take("checkpoint.interval", factor);
  }
  constexpr size_t kMostSteps = 1000;
  if (steps.size() > kMostSteps) return draft.refuse(*steps_from, fmt::format("{} checkpoints", steps.size()));
  if (!steps.empty()) draft.set("checkpoint.extra_steps", std::move(steps), steps_from);
  draft.assume("checkpoint.keep_latest_k", 0, "GPT-NeoX keeps all by default");
  set_run_folder(draft, "save");
  const auto load = draft.text("load");
  if (!load || load->empty() || (load == draft.text("save") && !draft.is_on("finetune"))) return;
  draft.set("checkpoint.initial_load_path", "checkpoints/" + foreign_name(*load), draft.find("load"),
            "hearth convert --to native, from GPT-NeoX's checkpoint");
  if (draft.is_on("finetune")) return;
  draft.set("checkpoint.initial_load_model_only", false, draft.find("finetune"),
            "GPT-NeoX goes on with its step and moments");
  draft.set_if_on("checkpoint.exclude_from_loading", Names{"optimizer"}, "no_load_optim");
}

void import_neox_keys(Draft& draft) {
  const bool llemma = is_llemma(draft);
  need_neox_shape(draft);
  if (!llemma) refuse_llemma_keys(draft);
  import_neox_model(draft, llemma);
  import_neox_schedule(draft, llemma);
  import_neox_batch(draft);
  import_neox_precision(draft);
  import_neox_sets(draft);
  import_neox_checkpoints(draft);
  import_neox_init(draft);
  if (draft.has("tensorboard_dir")) draft.set("metrics.enable_tensorboard", true, draft.find("tensorboard_dir"));
  draft.assume("training.seed", 1234, "GPT-NeoX's default");
  if (llemma)
    draft.note(
        "As it ran, Llemma's stack never clipped and summed gradients in bfloat16, whatever its files say. "
        "training.max_norm = 0 repeats the first.");
}

}  // namespace

Dialect neox() { return {"neox", "GPT-NeoX", neox_rules(), import_neox_keys}; }

}  // namespace hearth::config
