// SPDX-License-Identifier: Apache-2.0
// The beginning and end of a training: the run folder, the start, the ranks. trainer.cpp is between them.
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "comm/ranks.h"
#include "config/load.h"
#include "run/last_save.h"
#include "run/plan_record.h"
#include "run/run.h"
#include "run/start.h"
#include "runfolder/run_folder.h"
#include "trace/flight_recorder.h"
#include "train/signals.h"
#include "train/trainer.h"
#include "train/voice.h"

namespace hearth::train {
namespace {

using Outcome = std::variant<ExitCode, checkpoint::DamagedCheckpoint>;

void announce(const run::Start& start, Voice& voice) {
  for (const std::string& warning : start.warnings) voice.say(LogLevel::kWarning, warning);
  for (const std::string& note : start.notes) voice.say(LogLevel::kInfo, note);
}

// Local.
void write_copies(run::Run& run, comm::Control& control, bool is_done, bool& recording) {
  if (is_done) return;
  if (control.rank() == 0) {
    run.folder.write_run_file(run.run_file());
    write_file_atomic(run.folder.plan_file(), run::plan_record(run));
  }
  if (control.is_process() && control.size() > 1 && !std::exchange(recording, true))
    trace::start_flight(run.folder.flight(), control.rank(), control.size());
}

Outcome check_done(run::Start& start, comm::Control& control) {
  if (auto damage = start.check(control)) return std::move(*damage);
  return ExitCode::kDone;
}

ExitCode train(run::Run& run, const config::TrainOptions& options, comm::Group& group) {
  comm::Control& control = group.control();
  std::optional<Path> aside;
  control.together("the run file", [&] {
    if (group.rank() != 0) return;
    run.folder.check_run_file();
    if (options.restart) aside = run.folder.move_aside();
  });
  std::optional<Voice> voice;
  const data::TrainingData as_given = run.data;  // a start continues it
  std::vector<checkpoint::DamagedCheckpoint> given_up;
  ExitCode code = ExitCode::kDone;
  run::Start start;
  bool is_done = false, recording = false;
  while (true) {
    start = run::find_start(run, control, given_up);
    is_done = start.progress.step >= run.steps;
    if (!voice) {
      voice.emplace(run, group.rank());
      if (aside) voice->say(LogLevel::kInfo, fmt::format("moved the old run to {}", aside->string()));
      if (group.rank() == 0) voice->print(run.describe(options.verbose));
    }
    announce(start, *voice);
    control.together("the run file's copy", [&] { write_copies(run, control, is_done, recording); });
    const Outcome outcome =
        is_done ? check_done(start, control)
                : train_from(run, start, group, voice->log(), metrics::Console::style_of(stdout, options.launched));
    if (const auto* end = std::get_if<ExitCode>(&outcome)) {
      code = *end;
      break;
    }
    given_up.push_back(std::get<checkpoint::DamagedCheckpoint>(outcome));
    voice->say(LogLevel::kWarning, runfolder::damage_note(given_up.back()));
    run.data = as_given;
  }
  if (code != ExitCode::kDone) {
    voice->say(LogLevel::kInfo, "stopped, as asked: the same command goes on");
    return code;
  }
  for (const std::string& line : run::complete_last_save(run, start.progress.step, control))
    voice->say(LogLevel::kInfo, line);
  if (!is_done && !options.is_trial)
    voice->say(LogLevel::kInfo,
               fmt::format("done: all {0} steps; next: `hearth report {1} --out report.html`, `hearth eval "
                           "--checkpoint {1}`",
                           run.steps, shell_word(run.folder.path().string())));
  if (group.rank() == 0) run.folder.mark_done(run.steps);
  return code;
}

}  // namespace

ExitCode run_training(const config::LoadResult& loaded, const config::TrainOptions& options, comm::Group& group) {
  run::Run run = run::open_run(loaded, group.control());
  ExitCode code = ExitCode::kDone;
  try {
    config::with_places(loaded, [&] { code = train(run, options, group); });
  } catch (const Error&) {
    run.folder.remove_if_unused();
    throw;
  }
  return code;
}

ExitCode run_training(const config::LoadResult& loaded, const config::TrainOptions& options) {
  const SignalScope signals;
  std::atomic<ExitCode> outcome{ExitCode::kDone};
  const config::RunConfig& config = loaded.config;
  comm::run_ranks(config.parallelism.ranks(), config.comm.train_timeout_seconds, [&](comm::Group& group) {
    const ExitCode code = run_training(loaded, options, group);
    if (group.rank() == 0) outcome = code;
  });
  return outcome;
}

ExitCode run_training(const config::RunConfig& config, const config::TrainOptions& options) {
  return run_training(config::without_file(config), options);
}

}  // namespace hearth::train
