// SPDX-License-Identifier: Apache-2.0
// The first weights of a start, and the check of the checkpoint that they come from.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/load.h"
#include "checkpoint/verify.h"
#include "run/finite.h"
#include "run/start.h"

namespace hearth::run {
namespace {

// Runs `body`, the same calls on all ranks. The damage of the checkpoint of this run that any of them finds, if so.
template <class Body>
std::optional<checkpoint::DamagedCheckpoint> damage_found_by(const Start& start, Body body) {
  try {
    body();
    return std::nullopt;
  } catch (const Error& error) {  // the same on all ranks
    if (error.code() != ExitCode::kDamaged || !start.checkpoint || start.from_elsewhere) throw;
    const std::string said = error.what(), line(comm::kRankLine);
    const size_t rank = said.find(line);  // of a rank other than 0, whose host may have files of its own
    const std::string why = error.why().substr(0, error.why().find(line));
    return checkpoint::DamagedCheckpoint{
        start.progress.step, *start.checkpoint,
        fmt::format("{}{}{}", error.message().substr(0, error.message().find(line)), why.empty() ? "" : ": " + why,
                    rank == said.npos ? "" : fmt::format(" (on {})", said.substr(rank + line.size())))};
  }
}

void check_unread(checkpoint::Reader& reader, comm::Control& control) {
  const std::string checked = control.reduce("the checked items", checkpoint::checked_items(reader), comm::merge_bits);
  control.together("the unread items",
                   [&] { checkpoint::check_rest(reader, checked, control.rank(), control.size()); });
}

// Weights of initial values or of another training. Local.
void fill_from_elsewhere(const Start& start, convert::Source* source, const Run& run,
                         parallel::ShardedWeights& weights) {
  const std::vector<bool>& fresh = start.initial_load.fresh;
  const bool any_fresh = !start.checkpoint || std::find(fresh.begin(), fresh.end(), true) != fresh.end();
  if (any_fresh) initialize_weights(weights, static_cast<uint64_t>(run.config.training.seed));
  if (source == nullptr) return;
  load_weights(source->reader, weights, fresh, OtherTypes::kConvert);
  check_finite(weights, *start.checkpoint);
  if (start.moments)
    load_moments(source->reader, *source->training, weights, fresh,
                 source->reader.has_manifest() ? OtherTypes::kRefuse : OtherTypes::kConvert);
  // One rank has read all. Each of several has read its slices, and reading the rest would take as long as the load.
  source->reader.check_members(/*read_rest=*/run.ranks == 1);
}

}  // namespace

std::optional<checkpoint::DamagedCheckpoint> Start::fill(const Run& run, parallel::ShardedWeights& weights,
                                                         comm::Control& control) {
  const std::shared_ptr<convert::Source> opened = std::move(source);
  return damage_found_by(*this, [&] {
    std::vector<int64_t> updates;
    control.together("the first weights", [&] {
      if (!checkpoint || from_elsewhere) return fill_from_elsewhere(*this, opened.get(), run, weights);
      checkpoint::Reader& reader = opened->reader;
      load_weights(reader, weights);
      load_moment_values(reader, weights);
      if (control.rank() == 0) updates = read_updates(reader, convert::training_of(reader.manifest()), weights);
    });
    if (!checkpoint || from_elsewhere) return;
    const std::string counts = control.broadcast(
        "the counts of updates", {reinterpret_cast<const char*>(updates.data()), updates.size() * sizeof(int64_t)});
    updates.resize(counts.size() / sizeof(int64_t));
    std::memcpy(updates.data(), counts.data(), counts.size());
    set_updates(weights, convert::training_of(opened->reader.manifest()), updates);
    check_unread(opened->reader, control);
  });
}

std::optional<checkpoint::DamagedCheckpoint> Start::check(comm::Control& control) {
  const std::shared_ptr<convert::Source> opened = std::move(source);
  if (!checkpoint || from_elsewhere) return std::nullopt;
  return damage_found_by(*this, [&] { check_unread(opened->reader, control); });
}

}  // namespace hearth::run
