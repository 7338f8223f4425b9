#include "comm/host_memory.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <ctime>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/quantity.h"
#include "comm/control.h"
#include "comm/notes.h"

namespace hearth::comm {

namespace {

constexpr int64_t kLine = 128;  // two cache lines, which processors load together
constexpr int64_t kPage = 4096;
constexpr int kSpins = 200;                      // some microseconds, before a rank sleeps
constexpr int64_t kSleep_ns = 50 * 1000 * 1000;  // between looks at abort() and the deadline

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Not private: other processes wait on the same memory.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  const timespec time{0, kSleep_ns};
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &time, nullptr, 0);
}
void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::string describe(const Call& call) {
  return fmt::format("{} of {} x {}", call.operation, call.numel, c10::toString(call.type));
}

bool same(const Call& a, const Call& b) {
  return std::string_view(a.operation) == b.operation && a.type == b.type && a.numel == b.numel;
}

}  // namespace

struct HostMemory::Header {
  alignas(kLine) std::atomic<uint32_t> aborted;
};

struct HostMemory::Rank {
  alignas(kLine) std::atomic<uint32_t> phase;  // the last one that the rank arrived in; others sleep on it
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> ended;
  Call calls[2];  // of the last two phases
};

int64_t HostMemory::bytes_for(int64_t ranks) {
  const auto heads = static_cast<int64_t>(sizeof(Header)) + ranks * static_cast<int64_t>(sizeof(Rank));
  return div_ceil(heads, kPage) * kPage + 2 * ranks * kPlaceBytes;
}

HostMemory::HostMemory(std::byte* memory, int64_t ranks)
    : memory_(memory), members_(static_cast<size_t>(ranks)), all_(nullptr) {
  std::iota(members_.begin(), members_.end(), 0);
}

HostMemory::HostMemory(std::byte* memory, const std::vector<int64_t>& members, HostMemory& of)
    : memory_(memory), members_(of.among_all(members)), all_(of.all_ != nullptr ? of.all_ : &of) {}

std::vector<int64_t> HostMemory::among_all(const std::vector<int64_t>& ranks) const {
  std::vector<int64_t> all;
  for (const int64_t rank : ranks) all.push_back(members_.at(static_cast<size_t>(rank)));
  return all;
}

HostMemory::Header& HostMemory::header() const { return *reinterpret_cast<Header*>(memory_); }

HostMemory::Rank& HostMemory::of(int64_t rank) const {
  return *reinterpret_cast<Rank*>(memory_ + sizeof(Header) + static_cast<size_t>(rank) * sizeof(Rank));
}

std::byte* HostMemory::place(int64_t rank, uint32_t phase) const {
  const int64_t places = bytes_for(ranks()) - 2 * ranks() * kPlaceBytes;
  return memory_ + places + (2 * rank + phase % 2) * kPlaceBytes;
}

void HostMemory::arrive(int64_t rank, uint32_t phase, const Call& call, double timeout_s,
                        const std::atomic<bool>& abandoned) {
  Rank& mine = of(rank);
  if (aborted() || abandoned) throw Aborted{};
  mine.calls[phase % 2] = call;
  mine.phase = phase;
  if (mine.sleepers != 0) futex_wake_all(mine.phase);
  const double deadline_s = now_s() + timeout_s;
  for (int64_t r = 0; r < ranks(); ++r) {
    if (wait_for(r, phase, deadline_s, abandoned)) continue;
    abort();  // the group is broken: late ranks must not wait for this one
    throw_missing(members_[static_cast<size_t>(rank)], describe(call), timeout_s, missing(phase));
  }
  compare(phase);
}

bool HostMemory::wait_for(int64_t rank, uint32_t phase, double deadline_s, const std::atomic<bool>& abandoned) {
  Rank& other = of(rank);
  // Phases are compared by their difference: the counter may wrap.
  const auto arrived = [&] { return static_cast<int32_t>(other.phase - phase) >= 0; };
  for (int spin = 0; spin < kSpins; ++spin) {
    if (arrived()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  while (!arrived()) {
    if (aborted() || abandoned) throw Aborted{};
    if (ended(rank) && !arrived()) {
      abort();
      throw Error(ExitCode::kBug, fmt::format("a rank waits in a call for rank {}, which has ended",
                                              members_[static_cast<size_t>(rank)]));
    }
    if (now_s() > deadline_s) return false;
    ++other.sleepers;
    const uint32_t seen = other.phase;
    if (static_cast<int32_t>(seen - phase) < 0) futex_wait(other.phase, seen);
    --other.sleepers;
  }
  return true;
}

std::string HostMemory::missing(uint32_t phase) const {
  std::string list;
  for (int64_t r = 0; r < ranks(); ++r) {
    if (static_cast<int32_t>(of(r).phase - phase) >= 0) continue;
    list += fmt::format("{}rank {} (its last call: {})", list.empty() ? "" : ", ", members_[static_cast<size_t>(r)],
                        last_call(r));
  }
  return list;
}

void HostMemory::compare(uint32_t phase) const {
  const Call& first = of(0).calls[phase % 2];
  for (int64_t r = 1; r < ranks(); ++r) {
    const Call& other = of(r).calls[phase % 2];
    if (!same(first, other))
      throw Error(ExitCode::kBug, fmt::format("ranks disagree: rank {} is in {}, rank {} in {}", members_[0],
                                              describe(first), members_[static_cast<size_t>(r)], describe(other)));
  }
}

void HostMemory::abort() {
  if (all_ != nullptr) return all_->abort();
  header().aborted = 1;
}

bool HostMemory::aborted() const { return (all_ != nullptr ? *all_ : *this).header().aborted != 0; }

void HostMemory::end(int64_t rank) { of(rank).ended = 1; }

bool HostMemory::ended(int64_t rank) const {
  return (all_ != nullptr ? all_->of(members_[static_cast<size_t>(rank)]) : of(rank)).ended != 0;
}

std::string HostMemory::last_call(int64_t rank) const {
  const Rank& other = of(rank);
  const uint32_t phase = other.phase;
  return phase == 0 ? "none" : describe(other.calls[phase % 2]);
}

}  // namespace hearth::comm
