// SPDX-License-Identifier: Apache-2.0
#include "comm/host_memory.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/quantity.h"
#include "comm/control.h"
#include "comm/notes/notes.h"

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

std::string describe(const SharedCall& call) {
  return fmt::format("{} of {} x {}", call.operation, call.numel, c10::toString(call.type));
}

// Counters are compared by their difference: they may wrap.
bool is_at_least(uint32_t counter, uint32_t value) { return static_cast<int32_t>(counter - value) >= 0; }

bool same(const SharedCall& a, const SharedCall& b) {
  return std::string_view(a.operation) == b.operation && a.type == b.type && a.numel == b.numel;
}

}  // namespace

struct HostMemory::Header {
  alignas(kLine) std::atomic<uint32_t> aborted;
};

struct HostMemory::Rank {
  alignas(kLine) std::atomic<uint32_t> phase;  // the last one that the rank arrived in; others sleep on it
  std::atomic<uint32_t> sleepers;              // on any word of this rank
  std::atomic<uint32_t> ended;
  SharedCall calls[2];  // of the last two phases
  std::atomic<uint32_t> letters_sent;
  struct Letter {
    std::atomic<uint32_t> sent, taken;  // numbers of letters
    int64_t to;
    SharedCall call;
  } letters[2];
};

int64_t HostMemory::bytes_for(int64_t ranks) {
  const auto heads = static_cast<int64_t>(sizeof(Header)) + ranks * static_cast<int64_t>(sizeof(Rank));
  return div_ceil(heads, kPage) * kPage + 4 * ranks * kPlaceBytes;  // pages that nobody touches take no memory
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
  const int64_t places = bytes_for(ranks()) - 4 * ranks() * kPlaceBytes;
  return memory_ + places + (4 * rank + phase % 2) * kPlaceBytes;
}

void HostMemory::arrive(int64_t rank, uint32_t phase, const SharedCall& call, const Limit& limit,
                        const std::atomic<bool>& abandoned) {
  Rank& mine = of(rank);
  if (aborted() || abandoned) throw Aborted{};
  mine.calls[phase % 2] = call;
  change(mine, mine.phase, phase);
  const double begin_s = now_s();
  for (int64_t r = 0; r < ranks(); ++r) {
    Rank& other = of(r);
    const auto arrived = [&] { return is_at_least(other.phase, phase); };
    if (wait_for(r, other, other.phase, arrived, limit, begin_s, abandoned)) continue;
    abort();  // the group is broken: late ranks must not wait for this one
    throw_missing(members_[static_cast<size_t>(rank)], describe(call), now_s() - begin_s, missing(phase));
  }
  compare(phase);
}

void HostMemory::write_letter(int64_t rank, uint32_t number, int64_t to, const SharedCall& call, const Limit& limit,
                              const std::atomic<bool>& abandoned, const std::function<void(std::byte*)>& write) {
  if (aborted() || abandoned) throw Aborted{};
  Rank& mine = of(rank);
  Rank::Letter& letter = mine.letters[number % 2];
  const auto is_free = [&] { return letter.sent == letter.taken; };
  const double begin_s = now_s();
  if (!wait_for(letter.to, mine, letter.taken, is_free, limit, begin_s, abandoned)) {
    abort();
    throw_missing(members_[static_cast<size_t>(rank)], describe(call), now_s() - begin_s,
                  fmt::format("rank {}, which does not read", members_[static_cast<size_t>(letter.to)]));
  }
  write(place(rank, number) + 2 * kPlaceBytes);
  letter.to = to;
  letter.call = call;
  letter.sent = number;
  change(mine, mine.letters_sent, number);
}

void HostMemory::read_letter(int64_t rank, int64_t from, const SharedCall& call, const Limit& limit,
                             const std::atomic<bool>& abandoned, const std::function<void(const std::byte*)>& read) {
  if (aborted() || abandoned) throw Aborted{};
  Rank& other = of(from);
  Rank::Letter* found = nullptr;
  const auto look = [&] {
    for (Rank::Letter& letter : other.letters) {
      const uint32_t number = letter.sent;
      const bool is_mine = number != letter.taken && letter.to == rank;
      if (is_mine && (found == nullptr || !is_at_least(number, found->sent))) found = &letter;
    }
    return found != nullptr;
  };
  // A second look finds the earlier of two: both may have come during the first.
  const auto is_there = [&] { return look() && look(); };
  const double begin_s = now_s();
  if (!wait_for(from, other, other.letters_sent, is_there, limit, begin_s, abandoned)) {
    abort();
    throw_missing(members_[static_cast<size_t>(rank)], describe(call), now_s() - begin_s,
                  fmt::format("rank {}, which does not send", members_[static_cast<size_t>(from)]));
  }
  if (!same(found->call, call))
    throw Error(ExitCode::kBug, fmt::format("ranks disagree: rank {} receives {}, rank {} sends {}",
                                            members_[static_cast<size_t>(rank)], describe(call),
                                            members_[static_cast<size_t>(from)], describe(found->call)));
  const uint32_t number = found->sent;
  read(place(from, number) + 2 * kPlaceBytes);
  change(other, found->taken, number);
}

void HostMemory::change(Rank& owner, std::atomic<uint32_t>& word, uint32_t value) {
  word = value;
  if (owner.sleepers != 0) futex_wake_all(word);
}

bool HostMemory::wait_for(int64_t rank, Rank& owner, std::atomic<uint32_t>& word, const std::function<bool()>& is_there,
                          const Limit& limit, double begin_s, const std::atomic<bool>& abandoned) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (is_there()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  while (!is_there()) {
    if (aborted() || abandoned) throw Aborted{};
    if (ended(rank) && !is_there()) {
      abort();
      throw Error(ExitCode::kBug, fmt::format("a rank waits in a call for rank {}, which has ended",
                                              members_[static_cast<size_t>(rank)]));
    }
    const double since_s = limit.sign_s ? std::max(begin_s, limit.sign_s()) : begin_s;
    if (now_s() - since_s > limit.timeout_s()) return false;
    ++owner.sleepers;
    const uint32_t seen = word;
    if (!is_there()) futex_wait(word, seen);
    --owner.sleepers;
  }
  return true;
}

std::string HostMemory::missing(uint32_t phase) const {
  std::string list;
  for (int64_t r = 0; r < ranks(); ++r) {
    if (is_at_least(of(r).phase, phase)) continue;
    list += fmt::format("{}rank {} (its last call: {})", list.empty() ? "" : ", ", members_[static_cast<size_t>(r)],
                        last_call(r));
  }
  return list;
}

void HostMemory::compare(uint32_t phase) const {
  const SharedCall& first = of(0).calls[phase % 2];
  for (int64_t r = 1; r < ranks(); ++r) {
    const SharedCall& other = of(r).calls[phase % 2];
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
