#include "train/signals.h"

#include <atomic>
#include <csignal>

#include "base/error.h"

namespace hearth::train {
namespace {

// Signals belong to the process, so their flags are global. The flags are lock-free, which a handler needs.
std::atomic<bool> installed{false};
std::atomic<bool> leave{false};
std::atomic<bool> save{false};
static_assert(std::atomic<bool>::is_always_lock_free);

struct sigaction old_interrupt, old_terminate, old_user1, old_user2;

void on_leave(int) { leave.store(true); }
void on_save(int) { save.store(true); }

void install(int signal_number, void (*handler)(int), int flags, struct sigaction& old) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigemptyset(&action.sa_mask);
  HEARTH_CHECK(::sigaction(signal_number, &action, &old) == 0, "signal {}", signal_number);
}

}  // namespace

SignalScope::SignalScope() {
  HEARTH_CHECK(!installed.exchange(true));
  leave = false;
  save = false;
  // SA_RESETHAND: the first SIGINT restores the default, so the second one ends the process.
  install(SIGINT, on_leave, SA_RESTART | static_cast<int>(SA_RESETHAND), old_interrupt);
  install(SIGTERM, on_leave, SA_RESTART, old_terminate);
  install(SIGUSR1, on_save, SA_RESTART, old_user1);
  install(SIGUSR2, on_leave, SA_RESTART, old_user2);
}

SignalScope::~SignalScope() {
  ::sigaction(SIGINT, &old_interrupt, nullptr);
  ::sigaction(SIGTERM, &old_terminate, nullptr);
  ::sigaction(SIGUSR1, &old_user1, nullptr);
  ::sigaction(SIGUSR2, &old_user2, nullptr);
  installed = false;
}

bool leave_requested() { return leave.load(); }
bool take_save_request() { return save.exchange(false); }

}  // namespace hearth::train
