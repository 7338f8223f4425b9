// What targets with the state of a training have in common.
#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "config/derived.h"
#include "convert/target.h"
#include "plan/tensor_names.h"

namespace hearth::convert {

void require_moments(const Model& model, const std::vector<std::string>& parameters, std::string_view program) {
  std::vector<std::string> missing;
  for (const std::string& parameter : parameters) {
    if (model.reader.find(plan::exp_avg_name(parameter)) == nullptr ||
        model.reader.find(plan::exp_avg_sq_name(parameter)) == nullptr)
      missing.push_back(parameter);
  }
  if (missing.empty()) return;
  const size_t more = missing.size() - 1;
  throw user_error(
      fmt::format("{} has no moments of AdamW for {}{}", model.reader.folder().string(), missing.front(),
                  more > 0 ? fmt::format(" and {} more", more) : ""),
      fmt::format("{} asks for those of every weight; frozen weights and Muon's matrices have none", program),
      "leave out --resume to write the weights alone");
}

plan::LrSchedule schedule_of(const Model& model) {
  const config::RunConfig& run = *model.run;
  if (run.training.steps == 0 && run.training.tokens == 0)
    throw user_error(fmt::format("{}: the next step's learning rate is not known", model.origin),
                     "training.epochs gives the length, and only the data have the number of steps",
                     "leave out --resume to write the weights alone");
  return plan::lr_schedule(run.lr_scheduler, run.optimizer.lr, config::total_steps(run, 0));
}

double next_rate(const Model& model) {
  if (model.training->next_lr) return *model.training->next_lr;
  return plan::learning_rate(schedule_of(model), model.training->step + 1);
}

}  // namespace hearth::convert
