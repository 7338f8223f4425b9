// SPDX-License-Identifier: Apache-2.0
// Memory in which the ranks of one host meet: for each rank a counter of its calls, a description of the call, and a
// place for the data. Ranks are processes that map one memfd, or threads that share an allocation.
//
// A call has phases. In a phase a rank writes its place, arrives, waits until all ranks have arrived, and reads the
// others' places. A rank has two places and uses them in turn. It writes a place again only two phases later. By then
// all ranks have arrived in the phase between, so they have finished reading. So one wait per phase is enough.
//
// A rank also sends letters, each to one other rank and at most as long as a place. It has two places for letters and
// uses them in turn. It writes a place again when the reader has taken the letter.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hearth::comm {

// What a rank does in a phase. operation, numel and type must be equal on all ranks.
struct SharedCall {
  char operation[24] = "nothing";
  at::ScalarType type = at::kByte;
  int64_t numel = 0;
};

// How long a rank waits for another. The time begins again when any rank gives a sign of life: that rank may still be
// loading what this one has loaded already.
struct Limit {
  std::function<double()> timeout_s;  // the present limit; it is another one before the first step has ended
  std::function<double()> sign_s{};   // when a rank gave the last sign, on the steady clock; empty: ranks give none
};

class HostMemory {
 public:
  static constexpr int64_t kPlaceBytes = int64_t{1} << 20;

  static int64_t bytes_for(int64_t ranks);
  // Borrows `memory`: bytes_for(ranks) bytes, zero-filled, at an address that is a multiple of 4096.
  HostMemory(std::byte* memory, int64_t ranks);
  // The memory for some ranks of `of`. A wait in it also ends if the memory of all ranks is aborted. Borrows both.
  HostMemory(std::byte* memory, const std::vector<int64_t>& members, HostMemory& of);

  int64_t ranks() const { return static_cast<int64_t>(members_.size()); }
  // The numbers of `ranks` among all ranks.
  std::vector<int64_t> among_all(const std::vector<int64_t>& ranks) const;
  // The place of `rank` in phase number `phase`, from 1.
  std::byte* place(int64_t rank, uint32_t phase) const;

  // Arrives in phase number `phase` and waits for the others. Throws Aborted after abort(), or once `abandoned` is set;
  // an Error (kHardware), which names the operation and the missing ranks with their last calls, after the limit; an
  // Error (kBug) if ranks made different calls or one has ended.
  void arrive(int64_t rank, uint32_t phase, const SharedCall& call, const Limit& limit,
              const std::atomic<bool>& abandoned);

  // Letter number `number` of rank `rank`, from 1. write_letter waits for the place, calls write(place) and sends it.
  // read_letter waits for the next letter from `from` and calls read(place). Both throw as arrive() does, except that
  // the reader throws an Error (kBug) for a letter of another call.
  void write_letter(int64_t rank, uint32_t number, int64_t to, const SharedCall& call, const Limit& limit,
                    const std::atomic<bool>& abandoned, const std::function<void(std::byte*)>& write);
  void read_letter(int64_t rank, int64_t from, const SharedCall& call, const Limit& limit,
                   const std::atomic<bool>& abandoned, const std::function<void(const std::byte*)>& read);

  void abort();
  // Marks this rank as ended: a rank that waits for it gets an error. Only for the memory of all ranks.
  void end(int64_t rank);
  // The last call of `rank`, for errors: "all_reduce of 12 x Float".
  std::string last_call(int64_t rank) const;

 private:
  struct Rank;
  struct Header;
  Rank& of(int64_t rank) const;
  Header& header() const;
  bool aborted() const;
  bool ended(int64_t rank) const;
  // Sleeps while is_there() is false; `rank` wakes it when it changes `word`, which belongs to `owner`. False if the
  // limit since `begin_s` has passed.
  bool wait_for(int64_t rank, Rank& owner, std::atomic<uint32_t>& word, const std::function<bool()>& is_there,
                const Limit& limit, double begin_s, const std::atomic<bool>& abandoned);
  static void change(Rank& owner, std::atomic<uint32_t>& word, uint32_t value);
  std::string missing(uint32_t phase) const;
  void compare(uint32_t phase) const;

  std::byte* memory_;
  std::vector<int64_t> members_;  // the members' ranks in `all_`, or in this if that is null
  HostMemory* all_;               // null: this is the memory of all ranks
};

}  // namespace hearth::comm
