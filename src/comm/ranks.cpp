// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "comm/host_group.h"
#include "comm/notes/notes.h"
#include "comm/shared_pages.h"

namespace hearth::comm {

namespace {

// The calls of all threads' controls.
class NoteBoard {
 public:
  NoteBoard(int64_t ranks, double timeout_s)
      : ranks_(static_cast<size_t>(ranks)), timeout_s_(timeout_s), ended_(static_cast<size_t>(ranks)) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }

  void post(int64_t rank, uint64_t number, Note note) {
    const std::lock_guard lock(mutex_);
    if (aborted_) throw Aborted{};
    Notes& notes = calls_.try_emplace(number, ranks_).first->second.notes;
    notes.add(rank, std::move(note));
    if (notes.complete()) changed_.notify_all();
  }

  std::string collect(int64_t rank, const Posted& posted) {
    std::unique_lock lock(mutex_);
    Call& call = calls_.at(posted.number);
    const auto over = [&] { return call.notes.complete() || aborted_ || !ended_of(call).empty(); };
    const bool woken = changed_.wait_for(lock, std::chrono::duration<double>(timeout_s_), over);
    if (!call.notes.complete()) {
      if (aborted_) throw Aborted{};
      aborted_ = true;  // late ranks must not wait for this one
      changed_.notify_all();
      if (!woken) throw_missing(rank, posted.operation, timeout_s_, list_ranks(call.notes.missing_ranks()));
      throw Error(ExitCode::kBug, fmt::format("rank {} waits in {} for ranks that have ended: {}", rank,
                                              posted.operation, ended_of(call)));
    }
    if (!call.merged) call.merged = call.notes.take_merged();
    std::string bytes = rank == 0 || call.notes.first()->to == Answers::kAll ? *call.merged : std::string();
    if (++call.num_read == ranks_.size()) calls_.erase(posted.number);
    return bytes;
  }

  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }
  void end(int64_t rank) {
    const std::lock_guard lock(mutex_);
    ended_[static_cast<size_t>(rank)] = true;
    changed_.notify_all();
  }

 private:
  struct Call {
    explicit Call(const std::vector<int64_t>& ranks) : notes(ranks) {}
    Notes notes;
    std::optional<std::string> merged;
    size_t num_read = 0;
  };
  // The ranks that this call waits for and that have ended.
  std::string ended_of(const Call& call) const {
    std::vector<int64_t> ranks = call.notes.missing_ranks();
    std::erase_if(ranks, [this](int64_t r) { return !ended_[static_cast<size_t>(r)]; });
    return list_ranks(ranks);
  }

  std::vector<int64_t> ranks_;
  const double timeout_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Call> calls_;  // by number; references stay valid while others are added
  std::vector<bool> ended_;
  bool aborted_ = false;
};

class ThreadControl final : public Control {
 public:
  ThreadControl(int64_t rank, NoteBoard& board, HostMemory& memory) : rank_(rank), board_(board), memory_(memory) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return memory_.ranks(); }
  Posted post(std::string_view operation, std::string_view bytes, NoteMerge merge, Answers to) override {
    board_.post(rank_, ++number_, {std::string(operation), std::string(bytes), merge, to});
    return {number_, std::string(operation)};
  }
  std::string collect(const Posted& posted) override { return board_.collect(rank_, posted); }
  void abort() override {
    board_.abort();
    memory_.abort();
  }
  void set_step(int64_t) override {}
  void set_timeout(double) override {}
  void end() {
    board_.end(rank_);
    memory_.end(rank_);
  }

 private:
  const int64_t rank_;
  NoteBoard& board_;
  HostMemory& memory_;
  uint64_t number_ = 0;
};

// The ends of all ranks, for run_ranks.
class Outcome {
 public:
  explicit Outcome(int64_t size) : running_(static_cast<size_t>(size), true) {}

  void failed(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::move(error);
    changed_.notify_all();
  }
  void aborted() {
    const std::lock_guard lock(mutex_);
    any_aborted_ = true;
    changed_.notify_all();
  }
  void ended(int64_t rank) {
    const std::lock_guard lock(mutex_);
    running_[static_cast<size_t>(rank)] = false;
    changed_.notify_all();
  }

  // Waits until all ranks have ended. Ends the process if some still run grace_s after a failure.
  void wait(double grace_s) {
    std::unique_lock lock(mutex_);
    const auto all_ended = [&] { return std::count(running_.begin(), running_.end(), true) == 0; };
    changed_.wait(lock, [&] { return all_ended() || first_ != nullptr || any_aborted_; });
    if (changed_.wait_for(lock, std::chrono::duration<double>(grace_s), all_ended)) return;
    try {
      rethrow();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    } catch (...) {
      std::fprintf(stderr, "error: a rank failed\n");
    }
    for (size_t r = 0; r < running_.size(); ++r) {
      if (running_[r]) std::fprintf(stderr, "  rank %zu does not stop; ending the process\n", r);
    }
    std::fflush(stderr);
    std::_Exit(static_cast<int>(ExitCode::kHardware));
  }

  // Call this after all threads are joined.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
    if (any_aborted_) throw Error(ExitCode::kBug, "a rank aborted the group and gave no reason");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> running_;
  std::exception_ptr first_;
  bool any_aborted_ = false;
};

// Runs the body. An exception goes to `outcome` and aborts the group.
void run_rank(Group& group, Outcome& outcome, const std::function<void(Group&)>& body,
              const std::function<void()>& on_return) {
  try {
    body(group);
    on_return();
  } catch (const Aborted&) {
    outcome.aborted();
  } catch (...) {
    outcome.failed(std::current_exception());  // before abort(), so this exception is the first
    group.control().abort();
  }
  outcome.ended(group.rank());
}

}  // namespace

void run_ranks(int64_t size, double timeout_s, const std::function<void(Group&)>& body, double grace_s) {
  HEARTH_CHECK(size >= 1, "{} ranks", size);
  Outcome outcome(size);
  if (size == 1) {
    run_rank(*single(), outcome, body, [] {});
    return outcome.rethrow();
  }
  const SharedPages pages(static_cast<size_t>(HostMemory::bytes_for(size)));
  HostMemory memory(pages.data(), size);
  NoteBoard board(size, timeout_s);
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < size; ++r) {
    try {
      threads.emplace_back([&, r] {
        ThreadControl control(r, board, memory);
        run_rank(*host_group(memory, control, {.timeout_s = [timeout_s] { return timeout_s; }}), outcome, body,
                 [&] { control.end(); });
      });
    } catch (const std::system_error&) {  // the system has no more threads
      outcome.failed(std::current_exception());
      board.abort();
      memory.abort();
      for (int64_t missing = r; missing < size; ++missing) outcome.ended(missing);
      break;
    }
  }
  outcome.wait(grace_s);
  for (std::thread& thread : threads) thread.join();
  outcome.rethrow();
}

}  // namespace hearth::comm
