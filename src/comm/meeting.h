// Where the threads of a group meet: one after the other they enter an operation, each with what it brings; when the
// last one is there, all go on and may read what the others brought, until they leave.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace hearth::comm {

// What a rank brings. operation, numel and type must be equal on all ranks.
struct Call {
  const char* operation;
  int64_t numel = -1;  // -1: no tensor
  at::ScalarType type = at::kByte;
  std::byte* data = nullptr;           // memory the others read (and, for all_reduce, write)
  double value = 0;                    // scalar operations
  const std::string* bytes = nullptr;  // all_gather_bytes
};

class Meeting {
 public:
  Meeting(int64_t size, double timeout_s);

  // Waits until all ranks have entered. Throws Aborted after abort(); an Error (kHardware) naming the operation and the
  // missing ranks after timeout_s; an Error (kBug) if ranks entered different operations or one has ended.
  void enter(int64_t rank, const Call& call);
  // What `rank` brought; between enter() and leave().
  const Call& call(int64_t rank) const { return calls_[static_cast<size_t>(rank)]; }
  // Waits until all ranks have left. This wait has no end but theirs: somebody may still be reading our memory, and
  // nothing between enter() and leave() can fail or block.
  void leave();

  void abort();
  // This rank's body has returned: who waits for it waits in vain.
  void end(int64_t rank);

  int64_t size() const { return static_cast<int64_t>(calls_.size()); }

 private:
  std::string ranks_where(const std::vector<bool>& flags, bool value) const;
  std::string difference() const;  // between the calls; empty: they agree

  const double timeout_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  std::vector<bool> entered_, ended_;
  int64_t num_entered_ = 0, num_left_ = 0, num_ended_ = 0;
  uint64_t num_entries_ = 0, num_departures_ = 0;  // completed ones
  bool aborted_ = false;
  std::string difference_;
};

}  // namespace hearth::comm
