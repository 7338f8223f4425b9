// SPDX-License-Identifier: Apache-2.0
#include "infer/loaded_model.h"

#include "base/error.h"
#include "checkpoint/load.h"
#include "config/load.h"
#include "convert/training_state.h"
#include "ops/gpu/gpu.h"
#include "run/state.h"
#include "runfolder/run_checkpoints.h"

namespace hearth::infer {
std::unique_ptr<LoadedModel> load_model(const Path& given, const std::string& device_name) {
  const at::Device device = ops::open_device(device_name);
  auto model = std::make_unique<LoadedModel>();
  model->folder = runfolder::find_checkpoint(given);
  checkpoint::Reader reader = checkpoint::Reader::open(model->folder);
  if (!reader.has_manifest())
    throw user_error(fmt::format("{} has no {}", model->folder.string(), checkpoint::kManifestFile),
                     "PyTorch wrote it: it has neither the model's shape nor its tokenizer",
                     "train from it (checkpoint.initial_load_path), and use that run's checkpoint");
  model->manifest = reader.manifest();
  model->config = config::from_toml_text(model->manifest.config_toml,
                                         (model->folder / checkpoint::kManifestFile).string(), model->folder);
  model->tokenizer = reader.open_tokenizer();
  plan::RunShape run =
      plan::run_shape(model->config, {.vocab_size = model->tokenizer->vocab_size()}, plan::Workload::kInference);
  model->shape = run.model;
  model->plan = std::move(run.parameters);
  model->dtype = run.precision.compute;
  model->group = comm::single();
  model->weights = std::make_unique<parallel::ShardedWeights>(model->plan, run.precision, *model->group,
                                                              parallel::ShardedWeights::Mode::kInference,
                                                              std::vector<bool>{}, plan::Sharding{}, device);
  // A save of the weights alone may have another type (checkpoint.export_dtype).
  run::load_weights(reader, *model->weights, {},
                    convert::has_moments(reader) ? run::OtherTypes::kRefuse : run::OtherTypes::kConvert);
  return model;
}

}  // namespace hearth::infer
