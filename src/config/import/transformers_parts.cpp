// SPDX-License-Identifier: Apache-2.0
// Models by their names on the Hub or their types, and schedules with their settings.
#include "config/import/transformers_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/text.h"
#include "config/families.h"
#include "config/import/dialects.h"

namespace hearth::config {

std::string lower_plain(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != '-' && c != '_') plain += lower(c);
  }
  return plain;
}

namespace {

// The flavor that a name of the Hub means: "meta-llama/Meta-Llama-3.1-8B-Instruct" is llama3.1's 8B.
const Flavor* flavor_of_hub(std::string_view name) {
  const std::string plain = lower_plain(base_name(name));
  const Flavor* found = nullptr;
  size_t longest = 0;
  for (const Flavor& flavor : flavors()) {
    const std::string begin = lower_plain(flavor.model_name), size = lower_plain(flavor.name);
    // The shapes of torchtitan's own sizes are not those on the Hub.
    if (flavor.model_name == "llemma" || (flavor.model_name == "llama3" && size != "8b" && size != "70b")) continue;
    if (flavor.model_name == "llama2" && size != "7b" && size != "13b" && size != "70b") continue;
    const size_t at = plain.find(begin + size);
    if (at == std::string::npos || (at > 0 && plain.substr(0, at) != "meta") || begin.size() <= longest) continue;
    found = &flavor;
    longest = begin.size();
  }
  return found;
}

// A type alone leaves the sizes to its class, whose defaults no table here has.
void refuse_model_type(Draft& draft) {
  const auto type = draft.text("model_type");
  if (!type) return;
  const ForeignKey& from = *draft.find("model_type");
  std::vector<std::string> known;
  for (const Family& family : families()) {
    known.push_back(family.hugging_face.model_type);
    if (known.back() != *type) continue;
    Model model;
    apply(family, model);
    return draft.refuse(from, "without a model's name, Transformers takes the sizes that its class has by default",
                        fmt::format("write {}the sizes in [model] of the result",
                                    model.name.empty() ? "" : fmt::format("name = \"{}\" and ", model.name)));
  }
  draft.refuse(from, fmt::format("the families are {}", join(known)));
}

}  // namespace

namespace {

// The scripts take the shape from config_name, and the weights from model_name_or_path.
void refuse_two_models(Draft& draft) {
  const ForeignKey *shape_key = draft.find("config_name"), *weights_key = draft.find("model_name_or_path");
  const auto shape = draft.text(shape_key), weights = draft.text(weights_key);
  if (!shape || !weights || *shape == *weights) return;
  const Flavor* flavor = flavor_of_hub(*shape);
  if (flavor == nullptr || flavor != flavor_of_hub(*weights))
    draft.refuse(*shape_key, fmt::format("the model has this shape, and {} is another one", weights_key->assignment()),
                 "keep one of the two");
}

}  // namespace

void import_hf_model(Draft& draft, const HfProgram& program) {
  refuse_two_models(draft);
  const ForeignKey* from = draft.first_of({"model_name_or_path", "config_name"});
  const bool pretrained =
      draft.has("model_name_or_path") && (!program.frontier || draft.is_on("use_pretrained_weights"));
  const auto name = draft.text(from);
  if (!name) {
    refuse_model_type(draft);
    draft.note("The files do not name a model. `hearth inspect --model hf:NAME` prints the section [model] of one.");
    return;
  }
  const Flavor* flavor = flavor_of_hub(*name);
  if (flavor == nullptr) {
    draft.refuse(*from, "its shape is not known here",
                 fmt::format("`hearth inspect --model {}{}` prints the section [model], checkpoint.initial_load_path "
                             "takes the weights",
                             path_exists(*name) ? "" : "hf:", *name));
    return;
  }
  draft.set("model.name", flavor->model_name, from);
  draft.set("model.flavor", flavor->name, from);
  if (pretrained) {
    draft.set("model.rope_pairs", "halves", nullptr, "as Hugging Face's weights have it");
    const bool hub = std::count(name->begin(), name->end(), '/') == 1 && name->front() != '/' && name->front() != '.';
    const std::string path = hub ? "hf:" + *name : "checkpoints/" + foreign_name(*name);
    draft.set("checkpoint.initial_load_path", path, from,
              hub ? fmt::format("hearth fetch {}", *name) : "the folder of the model");
  } else if (program.frontier) {
    draft.note(
        "Without --use_pretrained_weights the first weights are random. Transformers' own scripts begin with "
        "those of model_name_or_path: checkpoint.initial_load_path does that.");
  }
}

namespace {

// A schedule of the library, and its settings in lr_scheduler_kwargs.
struct HfSchedule {
  std::string_view name, decay, settings;
};
constexpr HfSchedule kHfSchedules[] = {
    {"linear", "linear", ""},
    {"cosine", "cosine", "num_cycles"},
    {"cosine_with_restarts", "cosine_with_restarts", "num_cycles"},
    {"cosine_with_min_lr", "cosine", "num_cycles|min_lr|min_lr_rate"},
    {"polynomial", "polynomial", "power|lr_end"},
    {"warmup_stable_decay", "", "num_cycles|num_decay_steps|num_stable_steps|warmup_type|decay_type|min_lr_ratio"},
    {"constant", "constant", ""},
    {"constant_with_warmup", "constant", ""}};

const ForeignKey* hf_setting(const Draft& draft, std::string_view name) {
  return draft.find(fmt::format("lr_scheduler_kwargs.{}", name));
}

// What lr_scheduler_kwargs say. `lr`: the highest rate.
void import_hf_schedule_settings(Draft& draft, const HfSchedule& schedule, double lr) {
  for (const std::string_view name : {"num_cycles", "power", "lr_end", "min_lr", "min_lr_rate", "num_decay_steps",
                                      "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio"}) {
    const std::string all = fmt::format("|{}|", schedule.settings), one = fmt::format("|{}|", name);
    const ForeignKey* given = hf_setting(draft, name);
    if (given != nullptr && all.find(one) == std::string::npos)
      draft.refuse(*given, fmt::format("the schedule {} has no such setting", schedule.name));
  }
  const ForeignKey* cycles = hf_setting(draft, "num_cycles");
  if (schedule.decay == "cosine" && draft.number(cycles).value_or(0.5) != 0.5)
    draft.refuse(*cycles, "a cosine goes down once");
  if (schedule.name == "cosine_with_restarts") {
    draft.take("lr_scheduler.num_cycles", cycles);
  } else if (schedule.name == "polynomial") {
    draft.take("lr_scheduler.power", hf_setting(draft, "power"));
    const ForeignKey* from = hf_setting(draft, "lr_end");
    const auto end = draft.number(from);
    if (lr > 0)
      draft.set("lr_scheduler.min_lr_factor", end.value_or(1e-7) / lr, from,
                end ? "as a share of the rate" : "Transformers' default of 1e-7, as a share of the rate");
  } else if (schedule.name == "cosine_with_min_lr") {
    const ForeignKey *from = hf_setting(draft, "min_lr"), *share = hf_setting(draft, "min_lr_rate");
    if (from != nullptr && share != nullptr)
      return draft.refuse(*from, "min_lr_rate is given, too: Transformers refuses both", "keep one of them");
    if (draft.take("lr_scheduler.min_lr_factor", share)) return;
    if (const auto least = draft.number(from); least && lr > 0)
      draft.set("lr_scheduler.min_lr_factor", *least / lr, from, "as a share of the rate");
    else
      draft.refuse("lr_scheduler_type", "it needs lr_scheduler_kwargs with min_lr or min_lr_rate");
  }
}

// The schedule warmup_stable_decay, after the warm-up is known: the last steps decay, and before them the rate stays.
void import_hf_stable(Draft& draft) {
  const ForeignKey *type = draft.find("lr_scheduler_type"), *decay_key = hf_setting(draft, "num_decay_steps"),
                   *stable_key = hf_setting(draft, "num_stable_steps"), *shape_key = hf_setting(draft, "decay_type");
  const auto decay = draft.whole(decay_key);
  const auto *steps = draft.value<int64_t>("training.steps"),
             *warmup = draft.value<int64_t>("lr_scheduler.warmup_steps");
  if (!decay) return draft.refuse(*type, "it needs lr_scheduler_kwargs with num_decay_steps");
  if (steps == nullptr || warmup == nullptr)
    return draft.refuse(*type, "num_decay_steps are a share of the steps, which max_steps says", "give max_steps");
  if (*decay < 1 || *decay > *steps || *steps < 1)
    return draft.refuse(*decay_key, "not a number of the training's steps");
  draft.set("lr_scheduler.decay_ratio", static_cast<double>(*decay) / static_cast<double>(*steps), decay_key,
            "as a share of the steps");
  if (const auto stable = draft.whole(stable_key)) {
    const int64_t end = *warmup + *stable + *decay;
    if (*stable < 0 || end > (int64_t{1} << 50)) return draft.refuse(*stable_key, "not a number of steps");
    if (end != *steps) draft.set("lr_scheduler.end_step", end, stable_key, "warm-up, stable and decay");
  }
  const std::string shape = draft.text(shape_key).value_or("cosine");
  if (shape != "linear" && shape != "cosine" && shape != "1-sqrt")
    return draft.refuse(*shape_key, "the decay is linear, cosine or 1-sqrt");
  draft.set("lr_scheduler.decay_type", shape == "1-sqrt" ? "sqrt" : shape, shape_key,
            shape_key == nullptr ? "Transformers' default" : "");
  const ForeignKey *warmup_type = hf_setting(draft, "warmup_type"), *cycles = hf_setting(draft, "num_cycles");
  if (draft.text(warmup_type).value_or("linear") != "linear") draft.refuse(*warmup_type, "the warm-up is linear");
  if (shape == "cosine" && draft.number(cycles).value_or(0.5) != 0.5) draft.refuse(*cycles, "a cosine goes down once");
  draft.take("lr_scheduler.min_lr_factor", hf_setting(draft, "min_lr_ratio"));
}

// The warm-up's steps, from one of three keys.
void import_hf_warmup(Draft& draft, const HfProgram& program) {
  const ForeignKey *from = draft.find(program.trainer ? "warmup_steps" : "num_warmup_steps"),
                   *ratio_key = draft.find("warmup_ratio");
  const auto steps = draft.number(from), ratio = draft.number(ratio_key);
  const auto* all = draft.value<int64_t>("training.steps");
  if (ratio && !(*ratio >= 0 && *ratio <= 1))
    return draft.refuse(*ratio_key, "the warm-up is a share of the steps, from 0 to 1");
  const auto share = [&](double of, const ForeignKey* key) {  // the library rounds up to a step
    if (all != nullptr)
      draft.set("lr_scheduler.warmup_steps", static_cast<int64_t>(std::ceil(of * static_cast<double>(*all))), key,
                "of all steps");
    else
      draft.set("lr_scheduler.warmup_fraction", of, key, "rounded to a whole step");
  };
  if (steps && *steps > 0 && *steps < 1)
    share(*steps, from);
  else if (steps && (*steps > 0 || !ratio))
    draft.take("lr_scheduler.warmup_steps", from,
               program.trainer ? "" : "the script's factor of num_processes cancels out");
  else if (ratio && *ratio > 0 && *ratio <= 1)
    share(*ratio, ratio_key);
  else
    draft.set("lr_scheduler.warmup_steps", program.frontier ? 100 : 0, nullptr, program.default_of());
}

}  // namespace

void import_hf_schedule(Draft& draft, const HfProgram& program) {
  const ForeignKey* from = draft.find("lr_scheduler_type");
  const std::string type = draft.text("lr_scheduler_type").value_or(program.frontier ? "cosine" : "linear");
  draft.set("lr_scheduler.rule", "transformers", nullptr, "the formulas of the library");
  const auto* rate = draft.value<double>("optimizer.lr");
  const double lr = rate != nullptr ? *rate : program.frontier ? 1e-4 : 5e-5;
  draft.assume("optimizer.lr", lr, program.default_of());
  const auto* schedule = std::find_if(std::begin(kHfSchedules), std::end(kHfSchedules),
                                      [&type](const HfSchedule& one) { return one.name == type; });
  if (schedule == std::end(kHfSchedules))
    return draft.refuse(
        *from,
        "the decay is linear, cosine, cosine_with_restarts, cosine_with_min_lr, polynomial, warmup_stable_decay or "
        "constant");
  import_hf_schedule_settings(draft, *schedule, lr);
  if (!schedule->decay.empty())
    draft.set("lr_scheduler.decay_type", std::string(schedule->decay), from,
              from == nullptr ? program.default_of() : "");
  if (type == "constant") return draft.set("lr_scheduler.warmup_steps", 0, from, "this schedule has no warm-up");
  import_hf_warmup(draft, program);
  if (type == "warmup_stable_decay") import_hf_stable(draft);
}

}  // namespace hearth::config
