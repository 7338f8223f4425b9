// SPDX-License-Identifier: Apache-2.0
// The state of a training in NxD's files. ZeRO-1 of torch_xla gives each rank of data parallel as many rows of every
// tensor; the last ranks have rows of zeros. Source: as for state.cpp; the counts are those of the script
// examples/training/llama/tp_zero1_llama_hf_pretrain.py.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/quantity.h"
#include "config/choices.h"
#include "convert/target.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

// AdamW's form of decay tells which weights the training script has in its second group.
const char* no_decay_word(const Decay& decay) { return decay.norms == 0 ? kNxdMatricesDecay : kNxdAllDecay; }

class NxdStateWriter {
 public:
  NxdStateWriter(const Path& step, const TargetModel& model, ConvertProgress& progress)
      : step_(step),
        model_(model),
        progress_(progress),
        decay_(decay_of(model, "NxD")),
        updates_(updates_of_all_weights(model, "NxD")),
        weights_(in_float32(model, plan::weight_name)),
        exp_avg_(in_float32(model, plan::exp_avg_name)),
        exp_avg_sq_(in_float32(model, plan::exp_avg_sq_name)) {}

  void run() const {
    make_folders(step_ / "optim");
    for (int64_t tp = 0; tp < model_.tensor_parallel; ++tp) {
      for (int64_t pp = 0; pp < model_.pipeline_parallel; ++pp) write_rank(tp, pp);
    }
    sync_folder(step_ / "optim");
    write_counts();
  }

 private:
  void write_rank(int64_t tp, int64_t pp) const {
    const plan::ModelShape shape = plan::model_shape(model_.description.model, 0);
    int64_t of_first_group = 0;
    // In the order of the optimizer's numbers: a group follows the other.
    const auto tensors_of = [&](const std::vector<Transfer>& tensors) {
      std::vector<RankTensor> own =
          nxd_tensors(tensors, shape, model_.nxd, {model_.tensor_parallel, model_.pipeline_parallel}, {tp, pp});
      const auto second = std::stable_partition(own.begin(), own.end(), [&](const RankTensor& tensor) {
        return !is_in_second_group(tensor.info.name, no_decay_word(decay_));
      });
      of_first_group = second - own.begin();
      return own;
    };
    const std::vector<RankTensor> weights = tensors_of(weights_), exp_avg = tensors_of(exp_avg_),
                                  exp_avg_sq = tensors_of(exp_avg_sq_);
    for (int64_t dp = 0; dp < model_.data_parallel; ++dp) {
      PythonDict states, shapes, masters;
      for (size_t i = 0; i < weights.size(); ++i) {
        const auto id = static_cast<int64_t>(i);
        states.push_back({id, PythonDict{{"step", updates_},
                                         {"exp_avg", slice(exp_avg[i], dp)},
                                         {"exp_avg_sq", slice(exp_avg_sq[i], dp)}}});
        shapes.push_back({id, PythonSize{weights[i].info.shape}});
        masters.push_back({id, slice(weights[i], dp)});
      }
      write_nxd_file(step_ / "optim" / nxd_optimizer_file_name(dp, tp, pp),
                     PythonDict{{"state", PythonEmptyDict{}},
                                {"param_groups", PythonList{group(decay_.matrices, 0, of_first_group),
                                                            group(0, of_first_group, std::ssize(weights))}},
                                {"base_state", states},
                                {"shape_info", shapes},
                                {"sharded_master_weights", masters}},
                     model_.nxd);
    }
  }

  // A slice's rows of a tensor: zeros after the last.
  PythonTensor slice(const RankTensor& tensor, int64_t dp) const {
    mesh::TensorInfo info{{}, DType::kFloat32, tensor.info.shape};
    const int64_t all = info.shape[0], row = mesh::Box{{}, info.shape}.numel() / std::max<int64_t>(all, 1);
    const int64_t rows = div_ceil(all, model_.data_parallel), first = std::min(dp * rows, all),
                  last = std::min(first + rows, all);
    info.shape[0] = rows;
    return {info, [this, &tensor, rows, first, last, row](const ByteWriter& sink) {
              write_elements(model_.reader, tensor, first * row, last * row, progress_, sink);
              write_zeros((rows - (last - first)) * row, sink);
            }};
  }

  PythonDict group(double decay, int64_t begin, int64_t end) const {
    const config::Optimizer& optimizer = model_.run->optimizer;
    PythonList ids;
    for (int64_t id = begin; id < end; ++id) ids.push_back(id);
    // correct_bias is of Transformers' AdamW, the others are of torch's.
    return {{"weight_decay", decay},
            {"lr", next_rate(model_)},
            {"initial_lr", optimizer.lr},
            {"eps", optimizer.eps},
            {"betas", PythonPair(optimizer.beta1, optimizer.beta2)},
            {"correct_bias", true},
            {"amsgrad", false},
            {"maximize", false},
            {"capturable", false},
            {"differentiable", false},
            {"foreach", PythonNone{}},
            {"fused", PythonNone{}},
            {"params", ids}};
  }

  // torch's LambdaLR, and what the training script keeps beside it. Each list has a value for both groups.
  void write_counts() const {
    const int64_t step = model_.training->step;
    const double lr = model_.run->optimizer.lr, last_lr = next_rate(model_);
    write_python_values(step_ / "scheduler.pt", PythonDict{{"base_lrs", PythonList{lr, lr}},
                                                           {"_last_lr", PythonList{last_lr, last_lr}},
                                                           {"last_epoch", step},
                                                           {"_step_count", step + 1},
                                                           {"_get_lr_called_within_step", false},
                                                           {"lr_lambdas", PythonList{PythonNone{}, PythonNone{}}}});
    write_python_values(step_ / "user_content.pt", PythonDict{{"epoch", 0}, {"global_step", step}});
  }

  const Path& step_;
  const TargetModel& model_;
  ConvertProgress& progress_;
  const Decay decay_;
  const int64_t updates_;
  const std::vector<Transfer> weights_, exp_avg_, exp_avg_sq_;
};

}  // namespace

std::vector<std::string> check_nxd_state(const TargetModel& model) {
  updates_of_all_weights(model, "NxD");
  const Decay decay = decay_of(model, "NxD");
  if (decay.norms != 0 && decay.norms != decay.matrices)
    throw user_error(fmt::format("a decay of {} for norms and {} for matrices has no home in NxD's state", decay.norms,
                                 decay.matrices),
                     "its training scripts let all weights decay alike, or matrices alone",
                     "train on with Hearth, or leave out --resume to write the weights alone");
  if (model.description.model.enable_weight_tying)
    throw user_error("tied weights and --resume do not go together for nxd",
                     "the files have the embedding and the output matrix, and the training has one moment for both",
                     "leave out --resume to write the weights alone");
  std::vector<std::string> notes;
  const plan::LrSchedule schedule = schedule_of(model);
  if (schedule.rule != config::ScheduleRule::kTransformers || schedule.decay_type != config::DecayType::kLinear)
    notes.emplace_back("rates are those of NxD's training script, linear from --warmup_steps to 0 at --max_steps");
  if (model.run->optimizer.form != config::OptimizerForm::kTransformers)
    notes.emplace_back("NxD's training scripts update as Transformers' AdamW does, not as torch's");
  notes.push_back(fmt::format(
      "NxD goes on after step {} on {} x {} x {} ranks, with weights in the groups of no_decay = [\"bias\", \"{}\"]; "
      "its data begin anew",
      model.training->step, model.data_parallel, model.pipeline_parallel, model.tensor_parallel, no_decay_word(decay)));
  return notes;
}

int64_t nxd_optimizer_bytes(const TargetModel& model) {
  int64_t numel = 0;
  const plan::ModelShape shape = plan::model_shape(model.description.model, 0);
  const std::vector<Transfer> weights = in_float32(model, plan::weight_name);
  for (int64_t tp = 0; tp < model.tensor_parallel; ++tp) {
    for (int64_t pp = 0; pp < model.pipeline_parallel; ++pp) {
      for (const RankTensor& tensor :
           nxd_tensors(weights, shape, model.nxd, {model.tensor_parallel, model.pipeline_parallel}, {tp, pp}))
        numel += mesh::Box{{}, tensor.info.shape}.numel();
    }
  }
  return 3 * numel * dtype_size(DType::kFloat32);
}

void write_nxd_optimizer(const Path& step_folder, const TargetModel& model, ConvertProgress& progress) {
  NxdStateWriter(step_folder, model, progress).run();
}

}  // namespace hearth::convert
