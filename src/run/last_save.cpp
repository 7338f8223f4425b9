// SPDX-License-Identifier: Apache-2.0
#include "run/last_save.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/average.h"
#include "checkpoint/save.h"
#include "convert/convert.h"
#include "convert/hugging_face/config.h"
#include "convert/training_state.h"
#include "formats/cast.h"
#include "plan/tensor_names.h"

namespace hearth::run {
namespace {

// The newest step before `step` with an optimizer's state. One that cannot be opened does not count.
std::optional<int64_t> newest_with_moments(const Path& checkpoints, int64_t step) {
  std::vector<int64_t> steps = checkpoint::list_steps(checkpoints);
  for (; !steps.empty(); steps.pop_back()) {
    if (steps.back() >= step) continue;
    try {
      if (convert::has_moments(checkpoint::Reader::open(checkpoint::step_folder(checkpoints, steps.back()))))
        return steps.back();
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

std::vector<std::string> write_hugging_face(const Run& run, int64_t step, bool missing) {
  const Path native = checkpoint::step_folder(run.folder.checkpoints(), step), folder = hugging_face_folder(native);
  const bool in_store = is_object(folder);  // which renames nothing: config.json comes last there
  const bool is_whole = path_exists(in_store ? folder / "config.json" : folder);
  if ((missing && is_whole) || convert::has_moments(checkpoint::Reader::open(native))) return {};
  if (in_store && path_exists(folder))
    return {
        fmt::format("warning: {} has a part of an export that was interrupted; remove this folder, and start the run "
                    "again to have the export",
                    folder.string())};
  const Path fresh = in_store ? folder : Path(folder.native() + ".new");
  if (!in_store) remove_tree(fresh);
  convert::Options options{};
  options.in = native;
  options.out = fresh;
  options.to = convert::Kind::kHuggingFace;
  convert::ConvertProgress progress;
  const convert::Result result = convert::convert(options, progress);
  if (const auto lease = run.folder.lease()) lease->check();
  if (!in_store) replace_folder(fresh, folder, folder.native() + ".old");
  std::vector<std::string> lines = {fmt::format("wrote {} in Hugging Face's format", folder.string())};
  lines.insert(lines.end(), result.notes.begin(), result.notes.end());
  return lines;
}

}  // namespace

std::optional<DType> weights_alone(const Run& run, int64_t step) {
  const config::Checkpoint& keys = run.config.checkpoint;
  if (!keys.last_save_model_only || step < run.steps) return std::nullopt;
  return keys.export_dtype;
}

std::string write_weights(const Path& temporary, int64_t rank, std::span<const mesh::TensorPiece> pieces, DType dtype,
                          const std::stop_token& stop) {
  std::vector<mesh::TensorPiece> weights;
  for (const mesh::TensorPiece& piece : pieces)
    if (!plan::is_optimizer_state(piece.info.name)) weights.push_back(piece);
  if (std::ranges::all_of(weights, [dtype](const mesh::TensorPiece& piece) { return piece.info.dtype == dtype; }))
    return checkpoint::write_rank_file(temporary, rank, weights, stop);
  checkpoint::RankFile file(temporary, rank);
  std::vector<std::byte> rounded;
  for (const mesh::TensorPiece& piece : weights) {
    checkpoint::check_stop(temporary, stop);
    formats::cast(piece.bytes, piece.info.dtype, dtype, rounded);
    file.add({{piece.info.name, dtype, piece.info.shape}, piece.box, rounded});
  }
  return file.finish();
}

void require_moments(const checkpoint::Reader& reader, const Run& run) {
  const int64_t step = reader.manifest().step;
  if (convert::has_moments(reader) || step >= run.steps) return;
  const Path& folder = reader.folder();
  const std::optional<int64_t> before = newest_with_moments(run.folder.checkpoints(), step);
  const std::string go_back = before ? fmt::format("move {} to another folder, and the run goes on from {}; or ",
                                                   folder.filename().string(), checkpoint::step_name_of(*before))
                                     : "";
  throw user_error(
      fmt::format("{} has the weights alone: the run cannot go on from it to step {}", folder.string(), run.steps),
      reader.manifest().states.contains(checkpoint::kAverageState)
          ? "it is the mean of several checkpoints"
          : fmt::format("its training ended at step {}, and checkpoint.last_save_model_only left the optimizer's state "
                        "out",
                        step),
      fmt::format("{}begin a new run with these weights: checkpoint.initial_load_path in a new job.dump_folder",
                  go_back));
}

Path hugging_face_folder(const Path& step) { return step.native() + "-hf"; }

void check_hugging_face(const config::RunConfig& config, const plan::ModelShape& shape) {
  convert::Description d;
  d.model = config.model;
  d.model.vocab_size = shape.V;
  d.model.n_kv_heads = shape.G;
  d.model.hidden_dim = plan::feed_forward_width(config.model);
  d.objective = config.objective.kind;
  d.shift_logits = config.objective.shift_logits;
  d.max_positions = config.training.seq_len;
  convert::format_hugging_face_config(d, config.checkpoint.export_dtype);
}

std::vector<std::string> complete_last_save(const Run& run, int64_t first_step, comm::Control& control) {
  std::vector<std::string> lines;
  if (!run.config.checkpoint.last_save_in_hf) return lines;
  const int64_t step = std::max(first_step, run.steps);
  control.together("the last save in Hugging Face's format", [&] {
    if (control.rank() == 0) lines = write_hugging_face(run, step, /*missing=*/first_step == step);
  });
  return lines;
}

}  // namespace hearth::run
