// Schedules of Transformers, with their settings.
#include "config/import/transformers_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace hearth::config {
namespace {

// A schedule of the library, and its settings in lr_scheduler_kwargs.
struct HfSchedule {
  std::string_view name, decay, settings;
};
constexpr HfSchedule kHfSchedules[] = {{"linear", "linear", ""},
                                       {"cosine", "cosine", "num_cycles"},
                                       {"cosine_with_restarts", "cosine_with_restarts", "num_cycles"},
                                       {"cosine_with_min_lr", "cosine", "num_cycles|min_lr|min_lr_rate"},
                                       {"polynomial", "polynomial", "power|lr_end"},
                                       {"constant", "constant", ""},
                                       {"constant_with_warmup", "constant", ""}};

// What lr_scheduler_kwargs say. `lr`: the highest rate.
void import_hf_schedule_settings(Draft& draft, const HfSchedule& schedule, double lr) {
  const auto setting = [&draft](std::string_view name) { return fmt::format("lr_scheduler_kwargs.{}", name); };
  for (const std::string_view name : {"num_cycles", "power", "lr_end", "min_lr", "min_lr_rate"}) {
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
        *from, "the decay is linear, cosine, cosine_with_restarts, cosine_with_min_lr, polynomial or constant");
  import_hf_schedule_settings(draft, *schedule, lr);
  const std::string decay(schedule->decay);
  draft.set("lr_scheduler.decay_type", decay, from, from == nullptr ? program.default_of() : "");
  if (type == "constant") {
    draft.set("lr_scheduler.warmup_steps", int64_t{0}, from, "this schedule has no warm-up");
    return;
  }
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

}  // namespace hearth::config
