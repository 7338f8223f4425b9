// The state of a training in NxD's files. ZeRO-1 of torch_xla gives each rank of data parallel as many rows of every
// tensor; the last ranks have rows of zeros. Source: as for nxd_state.cpp; the counts are those of the script
// examples/training/llama/tp_zero1_llama_hf_pretrain.py.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "config/choices.h"
#include "convert/target.h"
#include "formats/torch_file.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

// Rows of a tensor that a slice has: from `first` on, and zeros after the last.
struct NxdSlice {
  const RankTensor* tensor;
  int64_t first, last, rows;  // rows of the slice, with those of zeros

  NxdSlice(const RankTensor& of, int64_t slice, int64_t slices) : tensor(&of) {
    const int64_t all = of.info.shape[0];
    rows = (all + slices - 1) / slices;
    first = std::min(slice * rows, all);
    last = std::min(first + rows, all);
  }
  mesh::TensorInfo info() const {
    mesh::TensorInfo info{{}, DType::kFloat32, tensor->info.shape};
    info.shape[0] = rows;
    return info;
  }
  int64_t row() const {
    return mesh::Box{{}, tensor->info.shape}.numel() / std::max<int64_t>(tensor->info.shape[0], 1);
  }
};

// The tensors of a rank and a stage, in the order of the optimizer's numbers.
struct NxdParameters {
  std::vector<RankTensor> weights, exp_avg, exp_avg_sq;
  size_t of_first_group = 0;
};

// AdamW's form of decay tells which weights the training script has in its second group.
const char* no_decay_word(const Decay& decay) { return decay.norms == 0 ? kNxdMatricesDecay : kNxdAllDecay; }

void sort_as(std::vector<RankTensor>& tensors, const std::vector<std::string>& names) {
  std::vector<RankTensor> sorted;
  for (const std::string& name : names) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const RankTensor& tensor) { return tensor.info.name == name; });
    HEARTH_CHECK(found != tensors.end());
    sorted.push_back(std::move(*found));
  }
  tensors = std::move(sorted);
}

class NxdStateWriter {
 public:
  NxdStateWriter(const Path& step, const Model& model, Progress& progress)
      : step_(step),
        model_(model),
        progress_(progress),
        decay_(decay_of(model, "NxD")),
        updates_(updates_of_all_weights(model, "NxD")),
        weights_(in_float32(model, plan::weight_name)),
        exp_avg_(in_float32(model, plan::exp_avg_name)),
        exp_avg_sq_(in_float32(model, plan::exp_avg_sq_name)) {}

  void run() {
    make_folders(step_ / "optim");
    for (int64_t tp = 0; tp < model_.tensor_parallel; ++tp) {
      for (int64_t pp = 0; pp < model_.pipeline_parallel; ++pp) {
        const NxdParameters parameters = parameters_of(tp, pp);
        for (int64_t dp = 0; dp < model_.data_parallel; ++dp)
          write_slice(step_ / "optim" / nxd_optimizer_file_name(dp, tp, pp), parameters, dp);
      }
    }
    sync_folder(step_ / "optim");
    write_counts();
  }

 private:
  NxdParameters parameters_of(int64_t tp, int64_t pp) const {
    const plan::ModelShape shape = plan::model_shape(model_.description.model, 0);
    const auto cut = [&](const std::vector<Transfer>& tensors) {
      return nxd_tensors(tensors, shape, model_.nxd, {model_.tensor_parallel, model_.pipeline_parallel}, {tp, pp});
    };
    NxdParameters parameters{cut(weights_), cut(exp_avg_), cut(exp_avg_sq_)};
    std::vector<std::string> names;
    for (const RankTensor& tensor : parameters.weights) names.push_back(tensor.info.name);
    auto [first, second] = nxd_groups(names, no_decay_word(decay_));
    parameters.of_first_group = first.size();
    first.insert(first.end(), second.begin(), second.end());
    for (std::vector<RankTensor>* tensors : {&parameters.weights, &parameters.exp_avg, &parameters.exp_avg_sq})
      sort_as(*tensors, first);
    return parameters;
  }

  void push_group(formats::PickleWriter& pickle, double decay, int64_t begin, int64_t end) const {
    const config::Optimizer& optimizer = model_.run->optimizer;
    pickle.empty_dict();
    pickle.mark();
    for (const auto& [key, value] : {std::pair<const char*, double>{"weight_decay", decay},
                                     {"lr", next_rate(model_)},
                                     {"initial_lr", optimizer.lr},
                                     {"eps", optimizer.eps}}) {
      pickle.string(key);
      pickle.real(value);
    }
    pickle.string("betas");
    pickle.mark();
    pickle.real(optimizer.beta1);
    pickle.real(optimizer.beta2);
    pickle.tuple();
    // correct_bias is of Transformers' AdamW, the others are of torch's.
    pickle.string("correct_bias");
    pickle.boolean(true);
    for (const char* key : {"amsgrad", "maximize", "capturable", "differentiable"}) {
      pickle.string(key);
      pickle.boolean(false);
    }
    for (const char* key : {"foreach", "fused"}) {
      pickle.string(key);
      pickle.none();
    }
    pickle.string("params");
    pickle.empty_list();
    pickle.mark();
    for (int64_t id = begin; id < end; ++id) pickle.integer(id);
    pickle.append_items();
    pickle.set_items();
  }

  using Push = std::function<void(const NxdSlice& slice)>;

  void push_state(formats::PickleWriter& pickle, const NxdParameters& parameters, int64_t dp, const Push& push) const {
    const auto count = std::ssize(parameters.weights);
    const auto first = static_cast<int64_t>(parameters.of_first_group);
    const auto slice = [&](const std::vector<RankTensor>& tensors, int64_t id) {
      return NxdSlice(tensors[static_cast<size_t>(id)], dp, model_.data_parallel);
    };
    pickle.empty_dict();
    pickle.mark();
    pickle.string("state");
    pickle.empty_dict();
    pickle.string("param_groups");
    pickle.empty_list();
    pickle.mark();
    push_group(pickle, decay_.matrices, 0, first);
    push_group(pickle, 0, first, count);
    pickle.append_items();
    pickle.string("base_state");
    pickle.empty_dict();
    pickle.mark();
    for (int64_t id = 0; id < count; ++id) {
      pickle.integer(id);
      pickle.empty_dict();
      pickle.mark();
      pickle.string("step");
      pickle.integer(updates_);
      pickle.string("exp_avg");
      push(slice(parameters.exp_avg, id));
      pickle.string("exp_avg_sq");
      push(slice(parameters.exp_avg_sq, id));
      pickle.set_items();
    }
    pickle.set_items();
    pickle.string("shape_info");
    pickle.empty_dict();
    pickle.mark();
    for (int64_t id = 0; id < count; ++id) {
      pickle.integer(id);
      pickle.size(parameters.weights[static_cast<size_t>(id)].info.shape);
    }
    pickle.set_items();
    pickle.string("sharded_master_weights");
    pickle.empty_dict();
    pickle.mark();
    for (int64_t id = 0; id < count; ++id) {
      pickle.integer(id);
      push(slice(parameters.weights, id));
    }
    pickle.set_items();
    pickle.set_items();
  }

  void write_elements_of(const NxdSlice& slice, formats::TorchFileWriter& writer) {
    write_elements(model_.reader, *slice.tensor, slice.first * slice.row(), slice.last * slice.row(), progress_,
                   [&](std::span<const std::byte> bytes) { writer.write(bytes); });
    const int64_t padding = slice.rows - (slice.last - slice.first);
    const std::vector<std::byte> zeros(static_cast<size_t>(padding * slice.row() * dtype_size(DType::kFloat32)));
    if (!zeros.empty()) writer.write(zeros);
  }

  void write_slice(const Path& path, const NxdParameters& parameters, int64_t dp) {
    std::vector<NxdSlice> slices;  // in the order in which the pickle names them
    if (!model_.nxd.xser) {
      formats::TorchFileWriter writer(path, [&](formats::PickleWriter& pickle, const auto& tensor) {
        push_state(pickle, parameters, dp, [&](const NxdSlice& slice) {
          tensor(slice.info());
          slices.push_back(slice);
        });
      });
      for (const NxdSlice& slice : slices) write_elements_of(slice, writer);
      return writer.finish();
    }
    formats::PickleWriter pickle;
    push_state(pickle, parameters, dp, [&](const NxdSlice& slice) {
      formats::push_torch_reference(pickle, std::ssize(slices));
      slices.push_back(slice);
    });
    formats::write_torch_pickle(path, pickle);
    const Path folder = path.string() + ".tensors";
    make_folders(folder);
    std::vector<mesh::TensorInfo> infos;
    for (const NxdSlice& slice : slices) {
      formats::TorchFileWriter writer(folder / fmt::format("tensor_{}.pt", infos.size()), slice.info());
      write_elements_of(slice, writer);
      writer.finish();
      infos.push_back(slice.info());
    }
    sync_folder(folder);
    if (model_.nxd.names == NxdNames::kV3) write_nxd_shapes(path.string() + ".info.pt", infos);
  }

  // torch's LambdaLR, and what the training script keeps beside it.
  void write_counts() {
    const int64_t step = model_.training->step;
    formats::PickleWriter pickle;
    pickle.empty_dict();
    pickle.mark();
    for (const auto& [key, rate] :
         {std::pair<const char*, double>{"base_lrs", model_.run->optimizer.lr}, {"_last_lr", next_rate(model_)}}) {
      pickle.string(key);
      pickle.empty_list();
      pickle.mark();
      for (int group = 0; group < 2; ++group) pickle.real(rate);
      pickle.append_items();
    }
    for (const auto& [key, count] : {std::pair<const char*, int64_t>{"last_epoch", step}, {"_step_count", step + 1}}) {
      pickle.string(key);
      pickle.integer(count);
    }
    pickle.string("_get_lr_called_within_step");
    pickle.boolean(false);
    pickle.string("lr_lambdas");
    pickle.empty_list();
    pickle.mark();
    for (int group = 0; group < 2; ++group) pickle.none();
    pickle.append_items();
    pickle.set_items();
    formats::write_torch_pickle(step_ / "scheduler.pt", pickle);
    formats::PickleWriter content;
    content.empty_dict();
    content.mark();
    for (const auto& [key, count] : {std::pair<const char*, int64_t>{"epoch", 0}, {"global_step", step}}) {
      content.string(key);
      content.integer(count);
    }
    content.set_items();
    formats::write_torch_pickle(step_ / "user_content.pt", content);
  }

  const Path& step_;
  const Model& model_;
  Progress& progress_;
  const Decay decay_;
  const int64_t updates_;
  const std::vector<Transfer> weights_, exp_avg_, exp_avg_sq_;
};

}  // namespace

std::vector<std::string> check_nxd_state(const Model& model) {
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

int64_t nxd_optimizer_bytes(const Model& model) {
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

void write_nxd_optimizer(const Path& step_folder, const Model& model, Progress& progress) {
  NxdStateWriter(step_folder, model, progress).run();
}

void write_nxd_shapes(const Path& path, const std::vector<mesh::TensorInfo>& tensors) {
  formats::PickleWriter pickle;
  pickle.empty_dict();
  pickle.mark();
  for (int64_t id = 0; const mesh::TensorInfo& tensor : tensors) {
    pickle.integer(id++);
    pickle.empty_dict();
    pickle.mark();
    pickle.string("dtype");
    pickle.global("torch", dtype_name(tensor.dtype));
    pickle.string("shape");
    pickle.size(tensor.shape);
    pickle.string("expert_model_parallel");
    pickle.boolean(false);
    pickle.set_items();
  }
  pickle.set_items();
  formats::write_torch_pickle(path, pickle);
}

}  // namespace hearth::convert
