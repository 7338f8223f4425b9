// SPDX-License-Identifier: Apache-2.0
#include "train/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "base/error.h"

namespace hearth::train {
namespace {

// Signals belong to the process, so their flags are global. The flags are lock-free, which a handler needs.
std::atomic<bool> installed{false};
std::atomic<bool> leave{false};
std::atomic<bool> save{false};
std::atomic<bool> answers{false};
std::atomic<bool> ends_by_interrupt{true};
std::atomic<bool> has_bar{true};
std::atomic<int64_t> interrupted_ns{0};  // when the first SIGINT came; 0: none came
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

struct sigaction old_interrupt, old_terminate, old_user1, old_user2;

// write() alone: a handler may not print otherwise.
void answer(std::string_view text) {
  const int error = errno;
  if (has_bar.load() && ::isatty(STDOUT_FILENO) != 0) {
    constexpr std::string_view kClearLine = "\r\x1b[K";  // of the progress bar
    [[maybe_unused]] const ssize_t cleared = ::write(STDOUT_FILENO, kClearLine.data(), kClearLine.size());
  }
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
  errno = error;
}

void on_leave(int) {
  if (!leave.exchange(true) && answers.load()) answer("asked to stop: the run finishes its step, saves and ends\n");
}

void on_interrupt(int number) {
  constexpr int64_t kSecond = 1'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = now.tv_sec * kSecond + now.tv_nsec;
  int64_t first_ns = 0;
  if (interrupted_ns.compare_exchange_strong(first_ns, now_ns)) {
    if (!leave.exchange(true) && answers.load())
      answer(
          "asked to stop: the run finishes its step, saves and ends; Ctrl-C once more ends it now, without a save\n");
  } else if (ends_by_interrupt.load() && now_ns - first_ns >= kSecond) {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
}

void on_save(int) { save.store(true); }

void install(int signal_number, void (*handler)(int), struct sigaction& old) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  HEARTH_CHECK(::sigaction(signal_number, &action, &old) == 0, "signal {}", signal_number);
}

}  // namespace

SignalScope::SignalScope(const SignalOptions& options) {
  HEARTH_CHECK(!installed.exchange(true));
  leave = false;
  save = false;
  answers = options.speaks;
  ends_by_interrupt = options.ends_by_interrupt;
  has_bar = options.has_bar;
  interrupted_ns = 0;
  install(SIGINT, on_interrupt, old_interrupt);
  install(SIGTERM, on_leave, old_terminate);
  install(SIGUSR1, on_save, old_user1);
  install(SIGUSR2, on_leave, old_user2);
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
