// SPDX-License-Identifier: Apache-2.0
// Requests from outside the process. SIGINT, SIGTERM or SIGUSR2: finish the step, save, leave (exit code 75). A job's
// script passes SIGUSR2 on before the time limit. SIGUSR1: save and continue. Another SIGINT a second later or more:
// leave at once, as without a handler. Ctrl-C sends SIGINT to all processes of a terminal, and launchers pass their own
// SIGINT on. So one Ctrl-C may come to a rank twice, and two within a second count once. Ranks of `hearth train
// --ranks` do not count: the process that started them counts for all (launch/local_ranks.h). Handlers set flags, and
// say on the console that the request came. The trainer reads the flags between steps and shares them among the ranks
// with the notes about the next step (train/step_note.h). So all ranks stop after the same step. With several ranks
// this is one step later than the step in which the signal came.
#pragma once

namespace hearth::train {

struct SignalOptions {
  bool speaks = false;            // the first request to leave is answered on standard output
  bool ends_by_interrupt = true;  // another SIGINT ends this process
  bool has_bar = true;            // a terminal's line has a progress bar, which the answer replaces
};

// Installs the handlers; its destructor restores the earlier ones. Only one object at a time.
class SignalScope {
 public:
  explicit SignalScope(const SignalOptions& options = {});
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
};

// True from the first request on. Any thread.
bool leave_requested();
// True if SIGUSR1 has come since the last call; several signals count as one. Any thread.
bool take_save_request();

}  // namespace hearth::train
