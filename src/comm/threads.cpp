#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "comm/buffers.h"
#include "comm/group.h"
#include "comm/meeting.h"

namespace hearth::comm {

namespace {

// The Group of one rank. Ranks read each other's memory directly. A rank writes only memory that no other rank reads or
// writes in the same operation, so enter() and leave() are sufficient synchronisation.
class ThreadRank final : public Group {
 public:
  ThreadRank(int64_t rank, Meeting& meeting) : rank_(rank), meeting_(meeting) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return meeting_.size(); }

  void all_gather(at::Tensor full, const at::Tensor& shard) override {
    const Buffer to = host_buffer_of(full, "all_gather"), from = host_buffer_of(shard, "all_gather");
    check_shard(to, from, rank_, size(), "all_gather");
    meeting_.enter(rank_, {"all_gather", from.numel, from.type, from.data});
    for (int64_t r = 0; r < size(); ++r) {
      copy_elements(to.at(r * from.numel), meeting_.call(r).data, from.numel * from.element_bytes);
    }
    meeting_.leave();
  }

  void reduce_scatter(at::Tensor shard, const at::Tensor& full) override {
    const Buffer to = host_buffer_of(shard, "reduce_scatter"), from = host_buffer_of(full, "reduce_scatter");
    check_shard(from, to, rank_, size(), "reduce_scatter");
    check_summable(from, "reduce_scatter");
    meeting_.enter(rank_, {"reduce_scatter", from.numel, from.type, from.data});
    const std::vector<const std::byte*> inputs = everyones_data();
    sum_elements(to.data, inputs.data(), size(), rank_ * to.numel, (rank_ + 1) * to.numel, from.type);
    meeting_.leave();
  }

  // Each rank sums one part and writes the result to all ranks.
  void all_reduce(at::Tensor values) override {
    const Buffer mine = host_buffer_of(values, "all_reduce");
    check_summable(mine, "all_reduce");
    meeting_.enter(rank_, {"all_reduce", mine.numel, mine.type, mine.data});
    const int64_t begin = mine.numel * rank_ / size(), end = mine.numel * (rank_ + 1) / size();
    const std::vector<const std::byte*> inputs = everyones_data();
    sum_elements(mine.at(begin), inputs.data(), size(), begin, end, mine.type);
    for (int64_t r = 0; r < size(); ++r) {
      copy_elements(meeting_.call(r).data + begin * mine.element_bytes, mine.at(begin),
                    (end - begin) * mine.element_bytes);
    }
    meeting_.leave();
  }

  double all_reduce(double value) override {
    meeting_.enter(rank_, {.operation = "all_reduce of a number", .value = value});
    std::vector<double> values;
    for (int64_t r = 0; r < size(); ++r) values.push_back(meeting_.call(r).value);
    meeting_.leave();
    return sum_in_pairs(values);
  }

  bool any(bool value) override {
    meeting_.enter(rank_, {.operation = "any", .value = value ? 1.0 : 0.0});
    bool result = false;
    for (int64_t r = 0; r < size(); ++r) result |= meeting_.call(r).value != 0;
    meeting_.leave();
    return result;
  }

  std::vector<std::string> all_gather_bytes(const std::string& bytes) override {
    meeting_.enter(rank_, {.operation = "all_gather_bytes", .bytes = &bytes});
    std::vector<std::string> all;
    for (int64_t r = 0; r < size(); ++r) all.push_back(*meeting_.call(r).bytes);
    meeting_.leave();
    return all;
  }

  void barrier() override {
    meeting_.enter(rank_, {.operation = "barrier"});
    meeting_.leave();
  }

  void abort() override { meeting_.abort(); }

 private:
  std::vector<const std::byte*> everyones_data() const {
    std::vector<const std::byte*> data;
    for (int64_t r = 0; r < size(); ++r) data.push_back(meeting_.call(r).data);
    return data;
  }

  const int64_t rank_;
  Meeting& meeting_;
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
    group.abort();
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
  Meeting meeting(size, timeout_s);
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < size; ++r) {
    try {
      threads.emplace_back([&, r] {
        ThreadRank rank(r, meeting);
        run_rank(rank, outcome, body, [&] { meeting.end(r); });
      });
    } catch (const std::system_error&) {  // the system has no more threads
      outcome.failed(std::current_exception());
      meeting.abort();
      for (int64_t missing = r; missing < size; ++missing) outcome.ended(missing);
      break;
    }
  }
  outcome.wait(grace_s);
  for (std::thread& thread : threads) thread.join();
  outcome.rethrow();
}

}  // namespace hearth::comm
