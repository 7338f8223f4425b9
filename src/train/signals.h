// Requests from outside the process. SIGINT, SIGTERM or SIGUSR2: finish the step, save, leave (exit code 75). A job's
// script passes SIGUSR2 on before the time limit. SIGUSR1: save and continue. A second SIGINT: leave at once, as
// without a handler. Handlers only set flags. The trainer reads them between steps and shares them among the ranks with
// the notes about the next step (train/step_note.h). So all ranks stop after the same step: with several ranks, the one
// after that in which the signal came.
#pragma once

namespace hearth::train {

// Installs the handlers; its destructor restores the earlier ones. Only one object at a time.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
};

// True from the first request on. Any thread.
bool leave_requested();
// True once for each SIGUSR1; reading clears the request. Several signals before one read count as one. Any thread.
bool take_save_request();

}  // namespace hearth::train
