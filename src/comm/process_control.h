// Messages between processes: every rank has one connection to rank 0. The notes of a call go there, and through the
// first ranks of parts if there are many (comm/notes/note_tree.h), which have connections of their own. A thread of
// each process listens, so that it hears of a failure while the rank computes.
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
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/control.h"
#include "comm/socket.h"
#include "mesh/flight_recorder.h"

namespace hearth::comm {

class NoteExchange;
struct OldestCall;

// A rank's place among the processes of a training.
struct Membership {
  int64_t rank = 0, size = 1;
  std::string address;         // where rank 0 listens; see comm/socket.h
  std::string key;             // of the training: connections with another one are not ours
  bool supervised = false;     // a parent names a rank that was killed
  double join_timeout_s = 60;  // for all ranks to start
  double timeout_s = 3600;     // for a rank that others wait for; until set_timeout()
  int64_t part = 0;            // ranks of a part; 0: NoteTree::usual_part
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
  Posted post(std::string_view operation, std::string_view bytes, Merge merge, Answers to) override;
  std::string collect(const Posted& posted) override;
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
  static double now_s();
  enum class Kind : uint32_t { kHello, kNote, kResult, kFailure, kEnd, kBye, kAsk, kAnswer };
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
    std::string host;      // "node7, process 1234"
    std::string received;  // the beginning of a message
    bool ended = false;
  };
  struct Asked;  // what ranks answered about a late call

  void meet_all();
  // The parts of a rank's hello, the key first; empty if another program connected.
  std::vector<std::string> read_hello(const Socket& socket, double timeout_s, size_t parts) const;
  void meet_rank_0();
  void make_exchange();
  void link_parts();
  void connect_to(int64_t collector, const std::string& places);
  void accept_members(const Socket& door);
  Peer& peer_of(int64_t rank);
  void hear(Peer& peer);  // the listener reads from it from now on
  void listen();
  void receive(Peer& peer);
  void take(Peer& peer, const Message& message);
  void lost(Peer& peer);
  // Runs `step` of the exchange under its lock, and sends what it returns.
  template <class Step>
  void exchange(Step step);
  void check_deadlines();
  bool have_answered(const OldestCall& oldest);
  std::string late_ranks(const OldestCall& oldest);
  void answer(Peer& rank_0);
  void take_answer(int64_t rank, std::string_view bytes);
  std::string name_of(int64_t rank) const;
  void send(Peer& peer, const Message& message);
  // Rank 0: says `text` and ends all.
  [[noreturn]] void end_all(ExitCode code, const std::string& text);

  const Membership me_;
  std::atomic<double> timeout_s_;
  std::atomic<int64_t> step_ = 0;
  std::deque<Peer> peers_;  // rank 0: all others; else rank 0, then those of the part
  std::mutex mutex_;        // exchange_, and what the main thread waits for
  std::mutex sending_;
  std::condition_variable changed_;
  std::unique_ptr<NoteExchange> exchange_;
  uint64_t number_ = 0;
  std::shared_ptr<Asked> asked_;                         // rank 0's listener
  std::optional<std::pair<int64_t, double>> lost_link_;  // the listener's: to this rank of the part, at this time
  std::optional<Error> own_failure_;                     // rank 0
  std::atomic<bool> stop_ = false, aborted_ = false, ending_ = false;
  int wake_[2] = {-1, -1}, events_ = -1;
  std::thread listener_;
};

}  // namespace hearth::comm
