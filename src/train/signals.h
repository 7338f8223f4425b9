// Signals to a run: SIGINT or SIGTERM = finish the step, save, leave (exit code 75); SIGUSR1 = save and go on; a second
// SIGINT = leave at once, as if there were no handler. Handlers only set flags, which the trainer reads between steps
// and shares among the ranks, so that all of them stop after the same step.
#pragma once

namespace hearth::train {

// Handlers are installed while an object lives; its destructor restores the earlier ones. One at a time.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
};

// Stays true once asked. Any thread.
bool leave_requested();
// True once for each SIGUSR1 (several before the first look count as one): reading takes the request. Any thread.
bool take_save_request();

}  // namespace hearth::train
