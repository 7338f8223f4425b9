// SPDX-License-Identifier: Apache-2.0
// Messages between processes: every rank has one connection to rank 0. The notes of a call go to rank 0. With many
// ranks they go through the first rank of each part (comm/notes/note_tree.h), to which its part has connections, too. A
// thread of each process listens, so that it hears of a failure while the rank computes.
//
// A rank that hangs is named. Rank 0 sees who is missing in a call of Control. A rank that waits in vain elsewhere
// tells rank 0, which asks all ranks where they are: a process that is stopped, or whose host is gone, does not answer.
// If rank 0 itself does not answer, another rank says so. While a process reads or writes files it gives signs of life
// (base/program.h), and nobody gives it up.
//
// If a rank dies or fails, rank 0 says so on stderr, and every process ends within a second with the same exit code. A
// process that has been told to end does not unwind. This is safe because a checkpoint gets its name only when it is
// complete.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/control.h"
#include "comm/meeting.h"
#include "comm/socket.h"
#include "trace/flight_recorder.h"

namespace hearth::comm {

class NoteExchange;

class ProcessControl final : public Control {
 public:
  // Meets the other ranks. Throws as comm/meeting.h does.
  explicit ProcessControl(const Membership& membership);
  // Tells the others that this rank has ended well. Waits until rank 0 has heard that of all, and they of rank 0: a
  // rank that hangs at its end would keep a launcher waiting for ever.
  ~ProcessControl() override;

  int64_t rank() const override { return me_.rank; }
  int64_t size() const override { return me_.size; }
  bool is_process() const override { return true; }
  std::string name() const override { return name_of(me_.rank); }
  using Control::post;
  Posted post(std::string_view operation, std::string_view bytes, NoteMerge merge, Answers to) override;
  std::string collect(const Posted& posted) override;
  void abort() override;
  void set_step(int64_t step) override {
    step_ = step;
    trace::set_flight_step(step);
  }
  void set_timeout(double timeout_s) override {
    timeout_s_ = timeout_s;
    is_training_ = step_ > 0;
    timeout_was_set_ = true;
  }
  // The last value of set_timeout(); `otherwise` before the first one. Any thread may call it.
  double timeout_s(double otherwise) const { return timeout_was_set_ ? timeout_s_.load() : otherwise; }

  // Ends all ranks, because this one has waited in vain. `error` need not say for which rank: the ranks that hang are
  // found and named. Any thread may call it.
  [[noreturn]] void report_hang(const Error& error);
  // Tells that this process is in a library's call that may never return. If the object lives longer than the time-out,
  // the process counts as hanging.
  class Watched {
   public:
    Watched(ProcessControl& control, std::string_view call);
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    ProcessControl& control_;
    const trace::CallScope now_;
  };

  // When any rank last gave a sign of life, in seconds on the steady clock. Any thread may call it.
  double last_sign_s() const { return std::chrono::duration<double>(Clock::duration(heard_)).count(); }

  // Ends all ranks with this error. Any thread may call it.
  [[noreturn]] void fail(const Error& error);
  // Waits until the process is ended, because another rank failed.
  [[noreturn]] static void wait_for_end();

 private:
  using Clock = std::chrono::steady_clock;
  static double now_s();
  // How long a rank that failed waits for the order to end.
  static constexpr auto kToldToEnd = std::chrono::seconds(5);
  // A rank waits this much longer than rank 0, which can name the missing ranks, and asks them before.
  static constexpr double kLongerThanRank0_s = 3;
  enum class Kind : uint32_t { kNote, kResult, kFailure, kEnd, kBye, kSign, kHang, kWhere, kHere };
  struct Head;  // of a message on the wire
  struct Message {
    Kind kind;
    uint64_t number = 0;  // of the call; of kFailure and kEnd: the exit code
    std::string bytes{};
  };
  // Another rank that this one has a connection to.
  struct Peer {
    int64_t rank = 0;
    Socket socket;
    std::string host;          // "node7, process 1234"
    std::string received;      // the beginning of a message
    Clock::time_point sign{};  // of life
    bool ended = false;
    bool answered = false;  // where it is
    trace::CallNow now{};
  };

  void make_exchange();
  void link_parts();
  void connect_to(int64_t collector, const std::string& places);
  void accept_members(const Socket& door, const std::string& word);
  Peer& peer_of(int64_t rank);
  void hear(Peer& peer);  // the listener reads from this peer from now on
  void listen();
  void hear_all();  // reads until the end, or until this rank fails
  void receive(Peer& peer);
  void take(Peer& peer, const Message& message);
  void lost(Peer& peer);
  // Runs `step` of the exchange under its lock, and sends what it returns.
  template <class Step>
  void exchange(Step step);
  void check_deadlines();
  void give_signs();
  void check_watched();
  void judge_hang();
  void await_ends();
  std::string verdict();
  std::string last_call(int64_t rank) const;
  std::string in_step() const;
  std::string_view timeout_key() const;
  // For ranks above 0: waits for rank 0's order to end. Prints `text` if it does not come.
  [[noreturn]] void end_without_answer(const std::string& text);
  std::string name_of(int64_t rank) const;
  void send(Peer& peer, const Message& message);
  // For rank 0: prints `text` and ends all ranks.
  [[noreturn]] void end_all(ExitCode code, const std::string& text);
  void tell_all_to_end(ExitCode code);

  const Membership me_;
  std::atomic<double> timeout_s_;
  std::atomic<int64_t> step_ = 0;
  std::atomic<bool> is_training_ = false;  // the time-out for steps holds
  std::atomic<bool> timeout_was_set_ = false;
  std::deque<Peer> peers_;  // rank 0: all others; else rank 0, then the part's ranks
  std::mutex mutex_;        // exchange_, and what the main thread waits for
  std::mutex sending_;
  std::condition_variable changed_;
  std::unique_ptr<NoteExchange> exchange_;
  uint64_t number_ = 0;
  std::optional<std::pair<int64_t, double>> lost_link_;  // the listener's: to this rank of the part, at this time
  bool has_failed_ = false;                              // the listener's, of a rank above 0
  std::optional<Error> own_failure_;                     // rank 0
  std::optional<std::string> hang_;                      // rank 0: what a rank says that waited in vain
  std::optional<std::pair<double, double>> away_;  // the listener's: how long this process did not run, until when
  std::optional<Clock::time_point> asked_;         // the listener's: when rank 0 asked all where they are
  uint64_t progress_ = 0;                          // the listener's: base/program.h
  bool owes_sign_ = false;
  Clock::time_point signed_{}, own_sign_{};
  std::atomic<Clock::rep> heard_ = 0;    // when a rank gave the last sign of life that this one knows of
  std::atomic<Clock::rep> watched_ = 0;  // since when a library's call is under way; 0: none is
  std::atomic<bool> stop_ = false, aborted_ = false, ending_ = false;
  int wake_[2] = {-1, -1}, events_ = -1;
  std::thread listener_;
};

}  // namespace hearth::comm
