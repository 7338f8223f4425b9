// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/quantity.h"
#include "base/text.h"
#include "checkpoint/load.h"
#include "checkpoint/retain.h"
#include "checkpoint/save.h"
#include "metrics/peak_rate.h"
#include "metrics/throughput.h"
#include "ops/gpu/gpu.h"
#include "ops/runtime.h"
#include "run/compute_device.h"
#include "run/last_save.h"
#include "run/run.h"
#include "run/saver.h"
#include "run/start.h"
#include "run/state.h"
#include "runfolder/run_checkpoints.h"
#include "runfolder/run_folder.h"
#include "trace/spans.h"
#include "train/guard.h"
#include "train/journal.h"
#include "train/libtorch_error.h"
#include "train/profiler.h"
#include "train/sample_texts.h"
#include "train/save_times.h"
#include "train/step.h"
#include "train/step_feed.h"
#include "train/training.h"
#include "train/validate.h"

namespace hearth::train {
namespace {
using metrics::monotonic_seconds;

// The trainer of one rank. Every method is Collective: all ranks make the same decisions after the same step.
class Trainer {
 public:
  Trainer(const run::Run& run, const run::Start& start, comm::Group& group, RankLog& log, metrics::Console::Style style)
      : run_(run),
        control_(group.control()),
        profiler_(run, control_, [this](LogLevel level, std::string_view text) { journal_->message(level, text); }),
        progress_(start.progress),
        guard_(run.config.numerics, start.progress.health),
        training_({.config = run.config,
                   .shape = run.shape,
                   .precision = run.precision,
                   .recompute = run.memory.recompute,
                   .device = run.device,
                   .trained = run.trained,
                   .guard = guard_.rules()},
                  group),
        saver_(training_.weights, {.checkpoints = run.folder.checkpoints(),
                                   .lease = run.folder.lease(),
                                   .keep = runfolder::keep_rules(run.config.checkpoint),
                                   .behind = run.config.checkpoint.async_mode == config::AsyncMode::kAsync}),
        sample_texts_(run, training_.plan, training_.groups, control_),
        save_times_(run.config, run.data.windows()),
        feed_(run, control_),
        journal_options_(journal_options(run, progress_, group.rank(), log, style)) {
    if (!start.from_elsewhere) checkpoint_ = start.checkpoint;
  }

  // Call first. Returns the damage of the checkpoint, if there is some.
  std::optional<checkpoint::DamagedCheckpoint> load(run::Start& start) {
    std::optional<checkpoint::DamagedCheckpoint> damage = start.fill(run_, training_.weights, control_);
    if (damage) return damage;
    journal_.emplace(journal_options_);
    paused_sample_ = progress_.next_sample;
    begin_from(progress_.next_sample);
    return std::nullopt;
  }

  ExitCode train() {
    if (progress_.step == 0 && run_.validates()) {
      metrics::StepRecord before;
      validate(training_.model, training_.weights, run_, before);
      before.time = metrics::wall_seconds();
      journal_->step(before);
      sample_texts();
    }
    feed_.saved();
    ended_s_ = monotonic_seconds();
    while (progress_.step < run_.steps) {
      control_.set_step(progress_.step + 1);
      Launched now = next_ ? std::move(*next_) : launch(progress_.step + 1);
      next_.reset();
      // A GPU computes the next step while the host finishes this one, unless the host needs the weights before that
      // step.
      Pause pause;
      const bool ahead = ops::works_ahead(run_.device);
      if (ahead) {
        pause = pause_after(now);
        if (!pause.any()) next_ = launch(now.t + 1);
      }
      std::optional<metrics::StepRecord> record = finish(now);
      control_.set_timeout(run_.config.comm.train_timeout_seconds);  // the first step has ended
      if (!record) continue;                                         // the training went back
      if (!ahead) pause = pause_after(now);
      paused_sample_ = progress_.next_sample;
      saver_.advance(pause.written_step);
      report_save();
      if (pause.validate) validate(training_.model, training_.weights, run_, *record);
      journal_->step(*record);
      if (pause.validate) sample_texts();
      if (pause.save) save(*record);
      if (pause.leave) break;
    }
    saver_.finish();
    report_save();
    profiler_.finish();
    return progress_.step < run_.steps ? ExitCode::kAskedToLeave : ExitCode::kDone;
  }

 private:
  // A step that may still be running, and its facts so far.
  struct Launched {
    int64_t t;
    double lr;
    double start_s, data_wait_s;
    int64_t substituted, num_samples;
    uint64_t next_sample;
    PendingStep pending;
  };

  // The tasks between this step and the next.
  struct Pause {
    bool validate = false, save = false, leave = false;
    bool failed = false;       // the next step has no batch: it stops the training, after this step
    int64_t written_step = 0;  // all ranks have written their parts of saves up to this step
    bool any() const { return validate || save || leave || failed; }
  };

  void begin_from(uint64_t sample) {
    feed_.begin(progress_.step + 1, sample);
    training_.step.begin_from(guard_.state(progress_.step - progress_.optimizer_start));
  }

  Pause pause_after(const Launched& step) {
    Pause pause;
    const bool last = step.t == run_.steps;
    if (!last) {
      pause.failed = feed_.note().failed;
      pause.written_step = feed_.note().written_step;
    }
    if (control_.size() == 1) feed_.hear_requests();
    pause.validate = run_.validates() && step.t % run_.config.validation.freq == 0;
    pause.save = save_times_.after(step.t, paused_sample_, step.next_sample) || feed_.asked_to_save() ||
                 feed_.asked_to_leave() || last;
    pause.leave = feed_.asked_to_leave() && !last;
    return pause;
  }

  Launched launch(int64_t t) {
    profiler_.begin_step(t);
    const double start_s = monotonic_seconds();
    feed_.set_written_step(saver_.written_step());
    const StepFeed::Step next = feed_.take(t);
    for (const std::string& line : next.note.substitutes)
      journal_->message(LogLevel::kWarning, "damaged data, " + line);
    const double lr = plan::learning_rate(run_.schedule, t);
    return {.t = t,
            .lr = lr,
            .start_s = start_s,
            .data_wait_s = next.data_wait_s,
            .substituted = std::ssize(next.note.substitutes),
            .num_samples = static_cast<int64_t>(next.batch.num_samples),
            .next_sample = next.next_sample,
            .pending = training_.step.run(next.batch, next.note.counts, t, lr)};
  }

  // The record of a finished step; nullopt if the training went back.
  std::optional<metrics::StepRecord> finish(Launched& step) {
    const StepResult result = step.pending.result();
    const Judgement judgement = guard_.judge(result);
    HEARTH_CHECK(result.applied == (judgement.verdict == Verdict::kApply), "step {}: two judgements", step.t);
    if (judgement.verdict == Verdict::kStop && !result.counted)
      throw user_error(fmt::format("step {}: {}", step.t, judgement.reason),
                       "every label is padding, excluded from the loss, or of weight 0, so there is no gradient",
                       "give a larger training.global_batch_size; for masked_lm, see objective.at_least_one_mask");
    if (judgement.verdict == Verdict::kStop) throw run_.diverged(step.t, judgement.reason, step.lr);
    if (judgement.verdict == Verdict::kRewind) return rewind(step, result, judgement.reason), std::nullopt;
    if (result.applied) {
      guard_.applied(result);
    } else {
      guard_.skipped();
      ++progress_.optimizer_start;
      journal_->message(LogLevel::kWarning, fmt::format("step {}: {}; its update is skipped, number {} in this run",
                                                        step.t, judgement.reason, guard_.health().skipped));
    }
    progress_.step = step.t;
    progress_.tokens_seen += step.num_samples * run_.seq_len();
    const uint64_t first_sample = std::exchange(progress_.next_sample, step.next_sample);
    progress_.health = guard_.health();

    const double now_s = monotonic_seconds(), step_s = now_s - std::max(step.start_s, std::exchange(ended_s_, now_s));
    return metrics::StepRecord{
        .step = step.t,
        .loss = if_finite(result.loss),
        .loss_parts = finite(result.loss_parts),
        .grad_norm = if_finite(result.grad_norm),
        .lr = step.lr,
        .tokens = progress_.tokens_seen,
        .tokens_per_second = run_.throughput.tokens_per_second(step_s),
        .mfu = utilisation(step_s),
        .first_sample = first_sample,
        .samples = static_cast<int64_t>(step.next_sample - first_sample),
        .skipped = result.applied ? "" : judgement.kind,
        .substituted = step.substituted,
        .expert_loads = result.expert_loads,
        .data_wait_s = step.data_wait_s,
        .step_s = step_s,
        .time = metrics::wall_seconds(),
        .memory_bytes = run_.device.is_cpu() ? metrics::peak_memory_bytes() : ops::gpu_memory(run_.device).peak_bytes};
  }

  // The mfu of a step of this time, and 0 on ranks that do not report it.
  double utilisation(double step_s) {
    if (control_.rank() != 0) return 0;
    const double before = peak_.flops_per_s(), share = peak_.share(run_.throughput.flops_per_second(step_s));
    if (peak_.flops_per_s() > before)
      journal_->message(
          LogLevel::kInfo,
          fmt::format("mfu is the share of {}/s from here on: step {} was faster than the matrix products "
                      "that were timed before it",
                      format_flops(peak_.flops_per_s()), progress_.step));
    return share;
  }

  // Products can be timed again where no other rank, and no GPU ahead of the host, computes meanwhile.
  metrics::PeakRate peak_rate() const {
    if (!run_.device.is_cpu() || control_.size() > 1) return metrics::PeakRate(run_.throughput.peak_flops);
    return metrics::PeakRate(run_.throughput.peak_flops,
                             [this] { return run::peak_flops_now(run_.device, run_.precision.compute); });
  }

  // Goes back to the last checkpoint and continues with the data after the step's.
  void rewind(const Launched& step, const StepResult& result, const std::string& reason) {
    if (!checkpoint_) throw run_.diverged(step.t, reason + "; there is no checkpoint to go back to", step.lr);
    next_.reset();  // the device held it back, as it does with every step after the judged one
    saver_.finish();
    report_save();
    checkpoint::Reader reader = checkpoint::Reader::open(*checkpoint_, checkpoint::FileSizes::kWhenOpened);
    run::load_weights(reader, training_.weights);
    run::load_moments(reader, convert::training_of(reader.manifest()), training_.weights);
    const run::RunProgress saved = run::progress_of(reader.manifest(), *checkpoint_);
    journal_->message(LogLevel::kWarning,
                      fmt::format("step {}: {}; back to {}, leaving out the {} sequences up to the end of this step",
                                  step.t, reason, checkpoint_->string(), step.next_sample - saved.next_sample));
    guard_.rewound(saved.health);
    progress_ = saved;
    progress_.health = guard_.health();
    progress_.next_sample = step.next_sample;
    paused_sample_ = saved.next_sample;
    begin_from(step.next_sample);
    journal_->rewind({.name = "rewind",
                      .step = progress_.step,
                      .next_sample = progress_.next_sample,
                      .from_step = step.t,
                      .rewinds = progress_.health.rewinds,
                      .reason = reason,
                      .loss = if_finite(result.loss),
                      .grad_norm = if_finite(result.grad_norm),
                      .time = metrics::wall_seconds()});
    control_.barrier("a rewind");  // no rank may delete the checkpoint while another reads it
  }

  static std::optional<double> if_finite(double value) {
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  }

  static metrics::LossParts finite(metrics::LossParts parts) {
    std::erase_if(parts, [](const auto& part) { return !std::isfinite(part.second); });
    return parts;
  }

  void sample_texts() {
    for (const metrics::SampleText& sample : sample_texts_.after(progress_.step, training_.weights))
      journal_->sample(sample);
  }

  void save(const metrics::StepRecord& record) {
    const trace::SpanScope span(trace::SpanKind::kPhase, "checkpoint");
    journal_->sync();
    saver_.finish();
    report_save();
    saver_.save(run_.manifest(progress_, record), run::weights_alone(run_, progress_.step));
    report_save();
    feed_.saved();
    checkpoint_ = saver_.folder();
    progress_.parent = checkpoint_->filename();
  }

  void report_save() {
    const std::optional<run::Saver::Saved> saved = saver_.completed();
    if (!saved) return;
    const bool behind = run_.config.checkpoint.async_mode == config::AsyncMode::kAsync;
    journal_->message(
        LogLevel::kInfo,
        fmt::format("saved {} in {}{}", saved->folder.string(), format_duration(saved->seconds),
                    behind ? fmt::format("; the training waited {}", format_duration(saved->waited_s)) : ""));
  }

  const run::Run& run_;
  comm::Control& control_;
  Profiler profiler_;  // before what may record spans
  run::RunProgress progress_;
  Guard guard_;
  RankTraining training_;
  run::Saver saver_;
  SampleTexts sample_texts_;
  const SaveTimes save_times_;
  StepFeed feed_;
  const Journal::Options journal_options_;
  std::optional<Journal> journal_;  // a checkpoint that cannot be loaded leaves no event
  metrics::PeakRate peak_ = peak_rate();
  std::optional<Path> checkpoint_;  // the last one, for a rewind
  uint64_t paused_sample_ = 0;      // samples before it were followed by a pause
  double ended_s_ = 0;              // when the last step ended
  std::optional<Launched> next_;    // a step that a GPU computes already
};

}  // namespace

std::variant<ExitCode, checkpoint::DamagedCheckpoint> train_from(const run::Run& run, run::Start& start,
                                                                 comm::Group& group, RankLog& log,
                                                                 metrics::Console::Style style) {
  const c10::InferenceMode no_gradients;
  ops::prepare_thread(run.rank_threads);
  try {
    Trainer trainer(run, start, group, log, style);
    if (auto damage = trainer.load(start)) return std::move(*damage);
    return trainer.train();
  } catch (const c10::Error& e) {
    log.write(LogLevel::kError, from_libtorch(e).what());
    throw from_libtorch(e);
  } catch (const std::exception& e) {
    log.write(LogLevel::kError, e.what());  // rank 0 prints it to stderr at its end
    throw;
  }
}

}  // namespace hearth::train
