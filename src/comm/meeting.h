// Synchronises the threads of a group. Each rank enters an operation with its data. When the last rank has entered, all
// may read the others' data, until they leave.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace hearth::comm {

// A rank's data for an operation. operation, numel and type must be equal on all ranks.
struct Call {
  const char* operation;
  int64_t numel = -1;  // -1: no tensor
  at::ScalarType type = at::kByte;
  std::byte* data = nullptr;           // memory that the others read (and, for all_reduce, write)
  double value = 0;                    // for scalar operations
  const std::string* bytes = nullptr;  // for all_gather_bytes
};

class Meeting {
 public:
  Meeting(int64_t size, double timeout_s);

  // Waits until all ranks have entered. Throws Aborted after abort(); an Error (kHardware) naming the operation and the
  // missing ranks after timeout_s; an Error (kBug) if ranks entered different operations or one has ended.
  void enter(int64_t rank, const Call& call);
  // The data of `rank`; between enter() and leave().
  const Call& call(int64_t rank) const { return calls_[static_cast<size_t>(rank)]; }
  // Waits until all ranks have left, without a timeout: another rank may still read our memory, and nothing between
  // enter() and leave() can fail or block.
  void leave();

  void abort();
  // Marks this rank's body as ended: a rank that waits for it gets an error.
  void end(int64_t rank);

  int64_t size() const { return static_cast<int64_t>(calls_.size()); }

 private:
  std::string ranks_where(const std::vector<bool>& flags, bool value) const;
  std::string difference() const;  // between the calls; empty: they are equal

  const double timeout_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  std::vector<bool> entered_, ended_;
  int64_t num_entered_ = 0, num_left_ = 0, num_ended_ = 0;
  uint64_t num_entries_ = 0, num_departures_ = 0;  // completed entries and departures
  bool aborted_ = false;
  std::string difference_;
};

}  // namespace hearth::comm
