// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's optimizer and rates (megatron/training.py and learning_rates.py).
#include "config/import/neox_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "config/import/dialects.h"

namespace hearth::config {
namespace {

void import_neox_optimizer(Draft& draft) {
  const ForeignKey* type = draft.find("optimizer.type");
  const std::string name = draft.text(type).value_or("Adam");
  if (type != nullptr && name != "Adam" && name != "adam" && name != "AdamW")
    draft.refuse(*type, "the optimizer is AdamW");
  const ForeignKey* rate = draft.first_of({"optimizer.params.lr", "lr"});
  if (rate == nullptr) draft.problem("optimizer.params.lr is not given", "give the highest learning rate");
  refuse_other_number(draft, "optimizer.params.lr", "lr");
  draft.take("optimizer.lr", rate);
  const ForeignKey* from = draft.find("optimizer.params.betas");
  if (const auto betas = draft.numbers(from)) {
    if (betas->size() != 2) return draft.refuse(*from, "not two numbers");
    draft.set("optimizer.beta1", (*betas)[0], from);
    draft.set("optimizer.beta2", (*betas)[1], from);
  } else {
    draft.assume("optimizer.beta2", 0.999, "Adam's default in GPT-NeoX");
  }
}

// Sets the decay's last step. The result is that step, or nothing where it is the run's last one and not known here.
std::optional<int64_t> import_neox_decay_end(Draft& draft) {
  const ForeignKey *step_key = draft.find("lr_decay_iters"), *share_key = draft.find("lr_decay_fraction");
  const auto step = draft.whole(step_key);
  const auto share = draft.number(share_key);
  const auto* steps = draft.value<int64_t>("training.steps");
  const std::optional<int64_t> last = steps == nullptr ? std::nullopt : std::optional(*steps);
  std::optional<int64_t> of_share;
  if (share && last) {
    const double exact = std::floor(*share * static_cast<double>(*last));
    if (!(exact >= 0 && exact <= 1e15)) {
      draft.refuse(*share_key, "not a share of train_iters");
      return last;
    }
    of_share = std::max<int64_t>(static_cast<int64_t>(exact), 1);
  }
  if (step && *step < 1) {
    draft.refuse(*step_key, "not a number of steps");
    return last;
  }
  if (step) {
    if (share_key != nullptr && of_share != step)
      draft.refuse(
          *share_key,
          fmt::format("{} of {} is given, too, and both are one setting", step_key->called(), step_key->where()),
          "keep one of the two");
    if (*step != last) draft.set("lr_scheduler.end_step", *step, step_key);
    return step;
  }
  if (of_share) {
    draft.set("lr_scheduler.end_step", *of_share, share_key, "of train_iters");
    return of_share;
  }
  if (share && *share != 1)
    draft.refuse(*share_key, kNeoxNeedsSteps, "give train_iters in place of train_epochs, or lr_decay_iters");
  return last;
}

// `end`: the decay's last step, of which the warm-up is a share.
void import_neox_warmup(Draft& draft, std::optional<int64_t> end, bool llemma) {
  const ForeignKey* from = draft.find("warmup");
  const auto given = draft.number(from);
  const double share = given.value_or(0.01);
  if (!(share >= 0 && share <= 1)) return draft.refuse(*from, "the warm-up is a share, from 0 to 1");
  if (draft.take("lr_scheduler.warmup_steps", "warmup_iters")) {
    if (llemma && given && share != 0)
      draft.refuse(*from, "warmup_iters is given, too, and GPT-NeoX refuses both", "keep one of the two");
    return;
  }
  const std::string note = from != nullptr ? "" : "GPT-NeoX's default of 0.01";
  const double exact = share * static_cast<double>(end.value_or(0));
  const bool is_known = share == 0 || (end && *end > 0);
  if (is_known && exact <= 1e15 && std::abs(exact - std::nearbyint(exact)) < 1e-6)
    draft.set("lr_scheduler.warmup_steps", static_cast<int64_t>(std::nearbyint(exact)), from,
              note.empty() ? "of the steps to the decay's end" : note);
  else
    draft.set("lr_scheduler.warmup_fraction", share, from, note.empty() ? "rounded to a whole step" : note);
}

// The least rate. The branch of 2023 has a share of the rate beside it, for cosines.
void import_neox_least_rate(Draft& draft) {
  const std::string style = draft.text("lr_decay_style").value_or("linear");
  const ForeignKey *share_key = draft.find("decay_lr_to"), *least_key = draft.find("min_lr");
  const auto share = draft.number(share_key), least = draft.number(least_key);
  const auto* lr = draft.value<double>("optimizer.lr");
  if (share && *share != 0 && style != "cosine")
    return draft.refuse(*share_key, fmt::format("lr_decay_style is {}, and GPT-NeoX has it for a cosine alone", style),
                        "leave it out, or give lr_decay_style: cosine");
  if (style == "constant") return;
  if (share && least && lr != nullptr && *least > *share * *lr)
    return draft.refuse(*least_key, "it cuts the decay to decay_lr_to, which is lower", "keep one of the two");
  if (draft.take("lr_scheduler.min_lr_factor", share_key)) return;
  if (least && lr != nullptr && *lr > 0)
    draft.set("lr_scheduler.min_lr_factor", *least / *lr, least_key, "as a share of lr");
}

}  // namespace

void import_neox_schedule(Draft& draft, bool llemma) {
  import_neox_optimizer(draft);
  draft.set("lr_scheduler.rule", llemma ? "neox_2023" : "neox", nullptr, "the formulas of the program");
  draft.take_or("lr_scheduler.decay_type", "lr_decay_style", "linear", "GPT-NeoX's default");
  import_neox_warmup(draft, import_neox_decay_end(draft), llemma);
  import_neox_least_rate(draft);
}

}  // namespace hearth::config
