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
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c != '-' && c != '_') plain += c;
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

// The family of a model whose sizes the files leave to its class: model.name has the family's options.
void import_model_type(Draft& draft) {
  const auto type = draft.text("model_type");
  if (!type) return;
  const ForeignKey& from = *draft.find("model_type");
  std::vector<std::string> known;
  for (const Family& family : families()) {
    known.push_back(family.hugging_face.model_type);
    if (known.back() != *type) continue;
    Model model;
    apply(family, model);
    if (!model.name.empty()) draft.set("model.name", model.name, &from, "the options of the family, not its sizes");
    return;
  }
  draft.refuse(from, fmt::format("the families are {}", join(known)));
}

}  // namespace

void import_hf_model(Draft& draft, const HfProgram& program) {
  const ForeignKey* from = draft.find("model_name_or_path");
  const bool pretrained =
      from != nullptr && (!program.frontier || draft.flag("use_pretrained_weights").value_or(false));
  if (from == nullptr) from = draft.find("config_name");
  const auto name = from == nullptr ? std::nullopt : draft.text(from->name);
  if (!name) {
    import_model_type(draft);
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
    draft.set("model.rope_pairs", std::string("halves"), nullptr, "as Hugging Face's weights have it");
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

// What lr_scheduler_kwargs say. `lr`: the highest rate.
void import_hf_schedule_settings(Draft& draft, const HfSchedule& schedule, double lr) {
  const auto setting = [&draft](std::string_view name) { return fmt::format("lr_scheduler_kwargs.{}", name); };
  for (const std::string_view name : {"num_cycles", "power", "lr_end", "min_lr", "min_lr_rate", "num_decay_steps",
                                      "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio"}) {
    const std::string all = fmt::format("|{}|", schedule.settings), one = fmt::format("|{}|", name);
    if (draft.has(setting(name)) && all.find(one) == std::string::npos)
      draft.refuse(*draft.find(setting(name)), fmt::format("the schedule {} has no such setting", schedule.name));
  }
  const auto number = [&](std::string_view name) { return draft.number(setting(name)); };
  if (schedule.decay == "cosine") {
    const auto cycles = number("num_cycles");
    if (cycles && *cycles != 0.5) draft.refuse(*draft.find(setting("num_cycles")), "a cosine goes down once");
  }
  if (schedule.name == "cosine_with_restarts") {
    if (const auto cycles = draft.whole(setting("num_cycles")))
      draft.set("lr_scheduler.num_cycles", *cycles, draft.find(setting("num_cycles")));
  } else if (schedule.name == "polynomial") {
    if (const auto power = number("power")) draft.set("lr_scheduler.power", *power, draft.find(setting("power")));
    const auto end = number("lr_end");
    if (lr > 0)
      draft.set("lr_scheduler.min_lr_factor", end.value_or(1e-7) / lr, draft.find(setting("lr_end")),
                end ? "as a share of the rate" : "Transformers' default of 1e-7, as a share of the rate");
  } else if (schedule.name == "cosine_with_min_lr") {
    if (const auto share = number("min_lr_rate"))
      draft.set("lr_scheduler.min_lr_factor", *share, draft.find(setting("min_lr_rate")));
    else if (const auto least = number("min_lr"); least && lr > 0)
      draft.set("lr_scheduler.min_lr_factor", *least / lr, draft.find(setting("min_lr")), "as a share of the rate");
    else
      draft.refuse(*draft.find("lr_scheduler_type"), "it needs lr_scheduler_kwargs with min_lr or min_lr_rate");
  }
}

// The schedule warmup_stable_decay, after the warm-up is known: the last steps decay, and before them the rate stays.
void import_hf_stable(Draft& draft) {
  const auto name = [](std::string_view setting) { return fmt::format("lr_scheduler_kwargs.{}", setting); };
  const ForeignKey* type = draft.find("lr_scheduler_type");
  const auto decay = draft.whole(name("num_decay_steps"));
  const Value *steps = draft.value("training.steps"), *warmup = draft.value("lr_scheduler.warmup_steps");
  if (!decay) return draft.refuse(*type, "it needs lr_scheduler_kwargs with num_decay_steps");
  if (steps == nullptr || warmup == nullptr)
    return draft.refuse(*type, "num_decay_steps are a share of the steps, which max_steps says", "give max_steps");
  const int64_t total = std::get<int64_t>(*steps);
  if (*decay < 1 || *decay > total || total < 1)
    return draft.refuse(*draft.find(name("num_decay_steps")), "not a number of the training's steps");
  draft.set("lr_scheduler.decay_ratio", static_cast<double>(*decay) / static_cast<double>(total),
            draft.find(name("num_decay_steps")), "as a share of the steps");
  if (const auto stable = draft.whole(name("num_stable_steps"))) {
    const int64_t end = std::get<int64_t>(*warmup) + *stable + *decay;
    if (*stable < 0 || end > (int64_t{1} << 50))
      return draft.refuse(*draft.find(name("num_stable_steps")), "not a number of steps");
    if (end != total)
      draft.set("lr_scheduler.end_step", end, draft.find(name("num_stable_steps")), "warm-up, stable and decay");
  }
  const std::string shape = draft.text(name("decay_type")).value_or("cosine");
  if (shape != "linear" && shape != "cosine" && shape != "1-sqrt")
    return draft.refuse(*draft.find(name("decay_type")), "the decay is linear, cosine or 1-sqrt");
  draft.set("lr_scheduler.decay_type", shape == "1-sqrt" ? "sqrt" : shape, draft.find(name("decay_type")),
            draft.has(name("decay_type")) ? "" : "Transformers' default");
  if (draft.text(name("warmup_type")).value_or("linear") != "linear")
    draft.refuse(*draft.find(name("warmup_type")), "the warm-up is linear");
  if (shape == "cosine" && draft.number(name("num_cycles")).value_or(0.5) != 0.5)
    draft.refuse(*draft.find(name("num_cycles")), "a cosine goes down once");
  if (const auto least = draft.number(name("min_lr_ratio")))
    draft.set("lr_scheduler.min_lr_factor", *least, draft.find(name("min_lr_ratio")));
}

// The warm-up's steps, from one of three keys.
void import_hf_warmup(Draft& draft, const HfProgram& program) {
  const std::string_view warmup = program.trainer ? "warmup_steps" : "num_warmup_steps";
  const auto steps = draft.number(warmup);
  const auto ratio = draft.number("warmup_ratio");
  const Value* all = draft.value("training.steps");
  const auto share = [&](double of, const ForeignKey* key) {  // the library rounds up to a step
    if (all != nullptr)
      draft.set("lr_scheduler.warmup_steps",
                static_cast<int64_t>(std::ceil(of * static_cast<double>(std::get<int64_t>(*all)))), key,
                "of all steps");
    else
      draft.set("lr_scheduler.warmup_fraction", of, key, "rounded to a whole step");
  };
  if (steps && *steps > 0 && *steps < 1) {
    share(*steps, draft.find(warmup));
  } else if (steps && (*steps > 0 || !ratio)) {
    if (const auto whole = draft.whole(warmup))
      draft.set("lr_scheduler.warmup_steps", *whole, draft.find(warmup),
                program.trainer ? "" : "the script's factor of num_processes cancels out");
  } else if (ratio && *ratio > 0 && *ratio <= 1) {
    share(*ratio, draft.find("warmup_ratio"));
  } else {
    draft.set("lr_scheduler.warmup_steps", program.frontier ? int64_t{100} : int64_t{0}, nullptr, program.default_of());
  }
}

}  // namespace

void import_hf_schedule(Draft& draft, const HfProgram& program) {
  const ForeignKey* from = draft.find("lr_scheduler_type");
  const std::string type = draft.text("lr_scheduler_type").value_or(program.frontier ? "cosine" : "linear");
  draft.set("lr_scheduler.rule", std::string("transformers"), nullptr, "the formulas of the library");
  const Value* rate = draft.value("optimizer.lr");
  const double lr = rate == nullptr ? (program.trainer || !program.frontier ? 5e-5 : 1e-4) : std::get<double>(*rate);
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
  if (type == "constant") {
    draft.set("lr_scheduler.warmup_steps", int64_t{0}, from, "this schedule has no warm-up");
    return;
  }
  import_hf_warmup(draft, program);
  if (type == "warmup_stable_decay") import_hf_stable(draft);
}

}  // namespace hearth::config
