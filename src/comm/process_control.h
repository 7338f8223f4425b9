// Messages between processes: every rank has one connection to rank 0, which collects the notes of a call and sends
// all of them to everyone. A thread of each process listens, so that it hears of a failure while the rank computes.
//
// If a rank dies or fails, rank 0 says so on stderr, and every process ends within a second with the same exit code. A
// process that has been told to end does not unwind: nothing that is written only whole (a checkpoint) is left half.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "comm/control.h"
#include "comm/notes.h"
#include "comm/socket.h"
#include "mesh/flight_recorder.h"

namespace hearth::comm {

// A rank's place among the processes of a training.
struct Membership {
  int64_t rank = 0, size = 1;
  std::string address;         // where rank 0 listens; see comm/socket.h
  std::string key;             // of the training: connections with another one are not ours
  bool supervised = false;     // a parent names a rank that was killed
  double join_timeout_s = 60;  // for all ranks to start
  double timeout_s = 3600;     // for a rank that others wait for; until set_timeout()
};

class ProcessControl final : public Control {
 public:
  // Meets the other ranks. Throws user_error if they disagree about the number of ranks or the version, an Error
  // (kHardware) that names the ranks that did not come.
  explicit ProcessControl(const Membership& membership);
  // Tells the others that this rank has ended well.
  ~ProcessControl() override;

  int64_t rank() const override { return me_.rank; }
  int64_t size() const override { return me_.size; }
  bool is_process() const override { return true; }
  using Control::post;
  Posted post(std::string_view operation, std::string_view bytes, Answers to) override;
  std::vector<std::string> collect(const Posted& posted) override;
  void abort() override;
  void set_step(int64_t step) override {
    step_ = step;
    mesh::set_flight_step(step);
  }
  void set_timeout(double timeout_s) override { timeout_s_ = timeout_s; }

  // Ends all ranks with this error. Any thread may call it.
  [[noreturn]] void fail(const Error& error);
  // Waits until the process is ended, because another rank failed.
  [[noreturn]] static void wait_for_end();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : uint32_t { kHello, kNote, kResult, kFailure, kEnd, kBye };
  struct Head;  // of a message on the wire
  struct Message {
    Kind kind;
    uint64_t number = 0;  // of the call; of kFailure and kEnd: the exit code
    std::string bytes{};
  };
  // Another rank, as rank 0 sees it; rank 0, as the others see it.
  struct Peer {
    int64_t rank = 0;
    Socket socket;
    std::string host;      // "node7, process 1234"
    std::string received;  // the beginning of a message
    std::string last_call = "none";
    bool ended = false;
  };
  struct Call {
    explicit Call(int64_t ranks) : notes(ranks) {}
    Notes notes;
    Clock::time_point began = Clock::now();
  };

  void meet_all();
  // The parts of a rank's hello; empty if another program connected.
  std::vector<std::string> read_hello(const Socket& socket, double timeout_s) const;
  void meet_rank_0();
  void listen();
  void receive(Peer& peer);
  void take(Peer& peer, const Message& message);
  void lost(Peer& peer);
  void add_note(uint64_t number, int64_t rank, Note note);
  void check_deadlines();
  std::string name_of(int64_t rank) const;
  void send(Peer& peer, const Message& message);
  // Rank 0: says `text` and ends all.
  [[noreturn]] void end_all(ExitCode code, const std::string& text);

  const Membership me_;
  std::atomic<double> timeout_s_;
  std::atomic<int64_t> step_ = 0;
  std::deque<Peer> peers_;
  std::mutex mutex_;  // calls_ and results_, and what the main thread waits for
  std::mutex sending_;
  std::condition_variable changed_;
  std::map<uint64_t, Call> calls_;                        // rank 0: those that are not complete
  std::map<uint64_t, std::vector<std::string>> results_;  // not yet taken
  uint64_t number_ = 0;
  std::optional<Error> own_failure_;  // rank 0
  std::atomic<bool> stop_ = false, aborted_ = false, ending_ = false;
  int wake_[2] = {-1, -1};
  std::thread listener_;
};

}  // namespace hearth::comm
