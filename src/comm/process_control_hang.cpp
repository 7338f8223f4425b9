// SPDX-License-Identifier: Apache-2.0
// Ranks that hang: who is missing, who gives signs of life, and what the console hears of it. See process_control.h.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "base/program.h"
#include "base/quantity.h"
#include "comm/notes/frames.h"
#include "comm/notes/note_exchange.h"
#include "comm/process_control.h"

namespace hearth::comm {

namespace {

// Rank 0 waits so long for the ranks that it asked where they are.
constexpr auto kAnswer = std::chrono::seconds(2);
constexpr double kLongestBetweenSigns_s = 5;
constexpr size_t kMostNamed = 8;
constexpr auto kLookForEnds = std::chrono::milliseconds(250);

}  // namespace

ProcessControl::Watched::Watched(ProcessControl& control, std::string_view call) : control_(control), now_(call) {
  control_.watched_ = Clock::now().time_since_epoch().count();
}
ProcessControl::Watched::~Watched() { control_.watched_ = 0; }

// Every rank whose process goes on in something long tells rank 0, and rank 0 tells all others, which may wait for it.
void ProcessControl::give_signs() {
  const auto now = Clock::now();
  const uint64_t progress = progress_count();
  if (progress != std::exchange(progress_, progress)) {
    owes_sign_ = true;
    own_sign_ = now;
    heard_ = now.time_since_epoch().count();
  }
  const std::chrono::duration<double> interval(std::min(timeout_s_ / 4, kLongestBetweenSigns_s));
  if (!owes_sign_ || now - signed_ < interval) return;
  for (Peer& peer : peers_)
    if (me_.rank == 0 || peer.rank == 0) send(peer, {Kind::kSign});
  owes_sign_ = false;
  signed_ = now;
}

void ProcessControl::check_deadlines() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<OldestCall> oldest = exchange_->oldest();
    if (!oldest || hang_ || now_s() - oldest->began_s < timeout_s_) return;
    const auto latest =
        Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s_));
    const NoteTree& tree = exchange_->tree(oldest->number);
    for (const int64_t first : oldest->missing_ranks) {
      const int64_t last = tree.last_below(first);
      bool gives_signs = false;  // one of a part, of which only its first rank knows who is missing
      for (int64_t r = first; r <= last; ++r)
        gives_signs |= (r == 0 ? own_sign_ : peers_[static_cast<size_t>(r) - 1].sign) > latest;
      if (gives_signs) continue;
      text += text.empty() ? "" : ", ";
      text += first == last ? name_of(first) : fmt::format("one of the ranks {} to {}", first, last);
      if (first > 0 && first == last) text += " after its last call, " + last_call(first);
    }
    if (text.empty()) return;
    // Some of them may wait elsewhere for the one that hangs.
    hang_ = Error(ExitCode::kHardware,
                  fmt::format("ranks waited {} for {}{}", format_duration(timeout_s_), text, in_step()),
                  "it hangs, is far slower than the others, or waits for a disk",
                  fmt::format("if it is merely slow, raise {}", timeout_key()))
                .what();
  }
}

// With mutex_ held.
std::string ProcessControl::last_call(int64_t rank) const {
  const auto found = exchange_->last_calls().find(rank);
  return found == exchange_->last_calls().end() ? "not known here" : found->second.operation;
}

// The thread that waits in the library cannot tell, and this one has to go on listening.
void ProcessControl::check_watched() {
  const Clock::rep began = watched_;
  if (began == 0) return;
  const auto since = std::max<Clock::rep>(began, heard_);  // a rank that reads or writes files is waited for
  const double waited_s =
      std::chrono::duration<double>(Clock::now() - Clock::time_point(Clock::duration(since))).count();
  if (waited_s < timeout_s_) return;
  watched_ = 0;
  const Error error(
      ExitCode::kHardware,
      fmt::format("rank {} waited {} in {}{}", me_.rank, format_duration(waited_s), trace::call_now().name, in_step()),
      "another rank did not make the call, or the network does not deliver",
      fmt::format("see the other ranks' logs; {} is the limit", timeout_key()));
  std::thread([this, error] { report_hang(error); }).detach();
}

void ProcessControl::report_hang(const Error& error) {
  if (me_.rank != 0) {
    send(peers_.front(), {Kind::kHang, 0, std::string(error.what())});
    end_without_answer(error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    if (!hang_) hang_ = error.what();
  }
  for (;;) std::this_thread::sleep_for(kAnswer);  // the listener ends the process
}

void ProcessControl::await_ends() {
  const trace::CallScope now("the end of the processes");
  const auto began = Clock::now();
  const auto awaited = [this](const Peer& peer) { return !peer.ended && (me_.rank == 0 || peer.rank == 0); };
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookForEnds, [&] { return std::none_of(peers_.begin(), peers_.end(), awaited); })) {
    const Clock::time_point heard{Clock::duration(heard_)};
    const double waited_s = std::chrono::duration<double>(Clock::now() - std::max(began, heard)).count();
    if (waited_s < timeout_s_ + (me_.rank == 0 ? 0 : kLongerThanRank0_s)) continue;
    lock.unlock();
    report_hang(Error(ExitCode::kHardware,
                      fmt::format("rank {} waited {} for {} to end", me_.rank, format_duration(waited_s),
                                  me_.rank == 0 ? "the other ranks" : "rank 0"),
                      "a rank hangs although the work of all is done", "the same command says what is left to do"));
  }
}

void ProcessControl::judge_hang() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (!hang_) return;
    text = *hang_;
  }
  const auto now = Clock::now();
  if (!asked_) {
    asked_ = now;
    for (Peer& peer : peers_) send(peer, {Kind::kWhere});
    return;
  }
  const bool all =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.answered || peer.ended; });
  if (all || now - *asked_ > kAnswer) end_all(ExitCode::kHardware, text + verdict());
}

// Who does not answer hangs; else who is in no call while the others wait; else all wait, and it is said where. A rank
// that gave up has just left its call.
std::string ProcessControl::verdict() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> silent, idle, waiting;
  const auto describe = [&](int64_t rank, const trace::CallNow& now) {
    constexpr double kJust_s = 0.5;
    if (!now.under_way && now.seconds < kJust_s) return;
    if (now.under_way)
      waiting.push_back(fmt::format("{} in {} for {}", name_of(rank), now.name, format_duration(now.seconds)));
    else
      idle.push_back(fmt::format("{} is in no call for {}; its last one was {}", name_of(rank),
                                 format_duration(now.seconds), now.name));
  };
  describe(0, trace::call_now());
  for (const Peer& peer : peers_) {
    if (peer.ended) continue;
    if (peer.answered)
      describe(peer.rank, peer.now);
    else
      silent.push_back(
          fmt::format("{} does not answer: it was stopped, or its host or network was; its last message was {}",
                      name_of(peer.rank), last_call(peer.rank)));
  }
  const bool some_are_idle = !idle.empty() && !waiting.empty();
  const std::vector<std::string>& named = !silent.empty()   ? silent
                                          : some_are_idle   ? idle
                                          : waiting.empty() ? idle
                                                            : waiting;
  std::string text;
  for (size_t i = 0; i < std::min(named.size(), kMostNamed); ++i)
    text += fmt::format("\n  {}: {}{}", !silent.empty() || some_are_idle ? "hangs" : "where", named[i], in_step());
  if (named.size() > kMostNamed) text += fmt::format("\n  and {} more", named.size() - kMostNamed);
  return text;
}

std::string ProcessControl::in_step() const {
  return step_ > 0 ? fmt::format(", in step {}", step_.load()) : ", before the first step";
}

std::string_view ProcessControl::timeout_key() const {
  return is_training_ ? "comm.train_timeout_seconds" : "comm.init_timeout_seconds";
}

// A launcher ends all when one rank ends. So ranks speak one after the other, and one message is seen. Where no
// launcher does that, few speak.
void ProcessControl::end_without_answer(const std::string& text) {
  constexpr int64_t kSpeak = 64;
  std::this_thread::sleep_for(kToldToEnd + turn_of(me_.rank));
  if (me_.rank <= kSpeak) {
    const std::string call = trace::last_call_of(0, peers_.front().host);
    log_message(LogLevel::kError,
                fmt::format("{}{}{}\n  hangs: {} does not answer{}{}{}", text, kRankLine, name(), name_of(0), in_step(),
                            call.empty() ? "" : "; its last call was " + call, trace::flight_hint()));
  }
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(ExitCode::kHardware));
}

}  // namespace hearth::comm
