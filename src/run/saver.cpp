// SPDX-License-Identifier: Apache-2.0
#include "run/saver.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/save.h"
#include "metrics/throughput.h"
#include "run/last_save.h"
#include "trace/spans.h"

namespace hearth::run {

using metrics::monotonic_seconds;

Saver::Saver(const parallel::ShardedWeights& weights, Options options)
    : weights_(weights),
      control_(weights.group().control()),
      options_(std::move(options)),
      snapshot_(weights, options_.behind ? Snapshot::Memory::kCopy : Snapshot::Memory::kWeights) {}

Saver::~Saver() = default;

void Saver::save(checkpoint::Manifest manifest, std::optional<DType> weights_as) {
  const double begin_s = monotonic_seconds();
  finish();
  if (options_.lease) options_.lease->check();
  manifest_ = std::move(manifest);
  std::string name;  // of the folder; rank 0 knows the number of the training's start
  if (control_.rank() == 0) {
    if (number_.save++ == 0 && options_.lease)
      number_.start = checkpoint::unused_start(options_.checkpoints, options_.lease->number());
    const Path temporary = checkpoint::temporary_folder(options_.checkpoints, manifest_.step, number_);
    checkpoint::begin_save(temporary);
    name = temporary.filename().string();
  }
  temporary_ = options_.checkpoints / control_.broadcast("the beginning of a save", name);
  snapshot_.take(manifest_.step - manifest_.optimizer_start);
  begin_s_ = begin_s;
  saved_ = {.folder = checkpoint::final_folder_of(temporary_)};
  phase_ = Phase::kWriting;
  is_open_ = true;
  start([this, weights_as](const std::stop_token& stop) {
    const std::span<const mesh::TensorPiece> pieces = snapshot_.pieces();
    items_ = weights_as ? write_weights(temporary_, control_.rank(), pieces, *weights_as, stop)
                        : checkpoint::write_rank_file(temporary_, control_.rank(), pieces, stop);
  });
  saved_.waited_s = monotonic_seconds() - begin_s;
  if (!options_.behind) finish();
}

// The thread is the caller's own where nothing runs behind.
void Saver::start(std::function<void(const std::stop_token&)> work) {
  std::promise<void> promise;
  done_ = promise.get_future();
  const auto run = [work = std::move(work), spans = trace::span_recorder()](const std::stop_token& stop,
                                                                            std::promise<void>& result) {
    const trace::SpanSeat seat(spans, "checkpoints");
    const trace::SpanScope span(trace::SpanKind::kPhase, "checkpoint file");
    try {
      work(stop);
      result.set_value();
    } catch (...) {
      result.set_exception(std::current_exception());
    }
  };
  if (!options_.behind) return run({}, promise);
  thread_ =
      std::jthread([run, result = std::move(promise)](const std::stop_token& stop) mutable { run(stop, result); });
}

void Saver::wait() {
  if (done_.valid()) done_.get();
  if (phase_ == Phase::kWriting) written_step_ = manifest_.step;
  if (phase_ != Phase::kCommitting) return;
  phase_ = Phase::kIdle;
  saved_.seconds = monotonic_seconds() - begin_s_;
  completed_ = saved_;
}

bool Saver::has_ended() const {
  return done_.valid() && done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

int64_t Saver::written_step() {
  if (has_ended()) wait();
  return written_step_;
}

void Saver::advance(int64_t written_step) {
  if (phase_ == Phase::kWriting && written_step == manifest_.step) gather();
}

void Saver::gather() {
  wait();
  const std::vector<std::string> items = control_.gather("the items of a checkpoint", items_);
  manifest_.ranks = control_.size();
  checkpoint::stamp(manifest_);
  phase_ = Phase::kCommitting;
  start([this, items](const std::stop_token&) {
    if (control_.rank() != 0) return;
    checkpoint::commit(temporary_, saved_.folder, items, manifest_, [&] {
      if (options_.lease) options_.lease->check();
    });
    try {
      checkpoint::remove_older_saves(saved_.folder);
      if (options_.keep) checkpoint::prune(options_.checkpoints, *options_.keep, manifest_.step);
    } catch (const Error& error) {
      // A store that deletes nothing for a while is no reason to end a training whose save is whole.
      if (!is_object(options_.checkpoints) || error.code() == ExitCode::kBug) throw;
      log_message(LogLevel::kWarning,
                  fmt::format("{} ({}): older checkpoints stay for now", error.message(), error.why()));
    }
  });
}

void Saver::finish() {
  if (!is_open_) return;
  const double begin_s = monotonic_seconds();
  if (phase_ == Phase::kWriting) gather();
  if (phase_ == Phase::kCommitting) {
    if (done_.valid()) done_.wait();
    saved_.waited_s += monotonic_seconds() - begin_s;
    wait();
  }
  // All ranks wait until the checkpoint is complete. If rank 0 fails, no other rank goes on.
  control_.barrier("the end of a save");
  is_open_ = false;
}

std::optional<Saver::Saved> Saver::completed() {
  if (has_ended()) wait();
  return std::exchange(completed_, std::nullopt);
}

void save_state(const parallel::ShardedWeights& weights, const Path& checkpoints, checkpoint::Manifest manifest) {
  Saver(weights, {.checkpoints = checkpoints}).save(std::move(manifest));
}

}  // namespace hearth::run
