#include "train/loaded_model.h"

#include "base/error.h"
#include "checkpoint/load.h"
#include "checkpoint/retain.h"
#include "checkpoint/save.h"
#include "config/load.h"
#include "plan/precision.h"
#include "train/state.h"

namespace hearth::train {
namespace {

// The checkpoint that `folder` means.
Path checkpoint_in(const Path& folder) {
  if (path_exists(folder / checkpoint::kManifestFile)) return folder;
  for (const Path& checkpoints : {folder, folder / config::Checkpoint{}.folder})
    if (const auto steps = checkpoint::list_steps(checkpoints); !steps.empty())
      return checkpoint::step_folder(checkpoints, steps.back());
  if (!path_exists(folder)) throw user_error(fmt::format("there is no {}", folder.string()));
  throw user_error(fmt::format("{} is no checkpoint", folder.string()),
                   fmt::format("it holds neither a {} nor a step-... folder", checkpoint::kManifestFile),
                   "give a folder such as RUN/checkpoints/step-00000100, or RUN itself for the newest");
}

}  // namespace

std::unique_ptr<LoadedModel> load_model(const Path& given) {
  auto model = std::make_unique<LoadedModel>();
  model->folder = checkpoint_in(given);
  checkpoint::Reader reader = checkpoint::Reader::open(model->folder);
  model->manifest = reader.manifest();
  model->config = config::from_toml_text(model->manifest.config_toml,
                                         (model->folder / checkpoint::kManifestFile).string(), model->folder);
  model->tokenizer = reader.open_tokenizer();
  model->shape = plan::model_shape(model->config, model->tokenizer->vocab_size());
  model->plan = plan::parameter_plan(model->shape);
  const plan::Precision precision = plan::precision(model->config);
  model->dtype = precision.compute;
  model->group = comm::single();
  model->weights = std::make_unique<parallel::ShardedWeights>(model->plan, precision, *model->group,
                                                              parallel::ShardedWeights::Purpose::kInference);
  load_weights(reader, *model->weights);
  return model;
}

std::vector<int32_t> document_start(const LoadedModel& model) {
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  std::vector<int32_t> start;
  if (tokenizer.eos()) start.push_back(static_cast<int32_t>(*tokenizer.eos()));
  if (tokenizer.bos() && (model.manifest.document_bos || start.empty()))
    start.push_back(static_cast<int32_t>(*tokenizer.bos()));
  return start;
}

}  // namespace hearth::train
