// SPDX-License-Identifier: Apache-2.0
// Collectives of tensors over ranks. Implementations: one rank (comm/group.cpp); ranks in one host's memory
// (comm/host_group), which are processes, or threads in tests; MPI (comm/mpi_group); NCCL (comm/nccl_group). Callers do
// not know which one runs.
//
// Every call except send and recv is Collective over the group: all ranks make the same calls in the same order, with
// the same types. Sizes are also equal, except with ExchangeCounts. A rank that makes a different call is our bug, and
// the error names it. Tensors are contiguous and used as 1-D arrays. Reductions add in pairs of ranks, ((0 + 1) + (2 +
// 3)) + ..., in the tensors' own type; bfloat16 is added in float32 and rounded once. So the result does not depend on
// timing, and every rank gets the same bits. NCCL's own sums have another order; they are faster, and used unless the
// order matters (comm/nccl_group.h).
//
// A group and all groups that split() made from it run their calls in one stream (comm/stream.h), one after the other.
// A group from split_apart() has a stream of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/control.h"
#include "comm/stream.h"
#include "trace/flight_recorder.h"
#include "trace/spans.h"

namespace hearth::comm {

// The number of elements in each rank's part of an exchange. Both empty: all parts have the same length.
struct ExchangeCounts {
  std::span<const int64_t> to{}, from{};
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Messages between all ranks that were started, even if this is a group of some of them.
  virtual Control& control() = 0;
  virtual Stream& stream() = 0;

  // The group of some of these ranks: `members` ascend and contain this rank. Each rank gives the list that it belongs
  // to, and the lists divide the group. The new group must not outlive this one. Collective over all ranks that were
  // started: each splits its group.
  std::unique_ptr<Group> split(const std::vector<int64_t>& members) { return seated(members, StreamOf::kAll); }
  // The same with a stream of its own: its calls run beside other groups' calls, in any order. Only a pipeline's
  // transfers need it, and with NCCL it costs own buffers and connections.
  std::unique_ptr<Group> split_apart(const std::vector<int64_t>& members) { return seated(members, StreamOf::kItself); }

  // full: [size * n], shard: [n], of any one type; n may be 0. `shard` may be the view of `full` at rank * n (in
  // place); otherwise they must not overlap. With one rank, in place does nothing and out of place copies.
  void all_gather(const at::Tensor& full, const at::Tensor& shard) {
    call("all_gather", full, trace::kAllPeers, [&] { all_gather_now(full, shard); });
  }
  // shard[i] = sum over ranks of full[rank * n + i]; float32, float64 or bfloat16. If `shard` is the view of `full` at
  // rank * n, the rest of `full` keeps this rank's own values.
  void reduce_scatter(const at::Tensor& shard, const at::Tensor& full) {
    call("reduce_scatter", full, trace::kAllPeers, [&] { reduce_scatter_now(shard, full); });
  }
  // In place, sum; float32, float64 or bfloat16.
  void all_reduce(const at::Tensor& values) {
    call("all_reduce", values, trace::kAllPeers, [&] { all_reduce_now(values); });
  }
  // to[r * n + i] = rank r's from[rank * n + i]; both [size * n], of any one type. They must not overlap.
  void all_to_all(const at::Tensor& to, const at::Tensor& from) { all_to_all(to, from, {}); }
  // The same with parts of any lengths, which may be 0 (torch's all_to_all_single): counts.from[r] elements go to rank
  // r, and counts.to[r] come from it, in the order of ranks. Rank r's counts.from[s] is rank s's counts.to[r].
  void all_to_all(const at::Tensor& to, const at::Tensor& from, const ExchangeCounts& counts) {
    const char* const name = counts.from.empty() ? "all_to_all" : trace::kUnequalExchange;
    call(name, from, trace::kAllPeers, [&] { all_to_all_now(to, from, counts); });
  }

  // Sends values of any type to one other rank. The two ranks make their calls in the same order. A send may return
  // before its receive.
  void send(const at::Tensor& values, int64_t to) {
    call("send", values, to, [&] { send_now(values, to); });
  }
  void recv(const at::Tensor& values, int64_t from) {
    call("recv", values, from, [&] { recv_now(values, from); });
  }

  // Runs `calls` in the stream while the caller continues: calls of these groups, and operations on their results. The
  // groups and tensors that `calls` uses must live until the Work is done.
  Work start(std::function<void()> calls) { return stream().start(std::move(calls)); }

 protected:
  enum class StreamOf { kAll, kItself };
  virtual std::unique_ptr<Group> split(const std::vector<int64_t>& members, StreamOf stream) = 0;
  virtual void all_gather_now(at::Tensor full, const at::Tensor& shard) = 0;
  virtual void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) = 0;
  virtual void all_reduce_now(at::Tensor values) = 0;
  virtual void all_to_all_now(at::Tensor to, const at::Tensor& from, const ExchangeCounts& counts) = 0;
  virtual void send_now(const at::Tensor& values, int64_t to) = 0;
  virtual void recv_now(at::Tensor values, int64_t from) = 0;
  // Whether the call with this number in the flight recorder still runs after *_now has returned. If so, the group
  // records its end.
  virtual bool ends_later(uint64_t) { return false; }

 private:
  std::unique_ptr<Group> seated(const std::vector<int64_t>& members, StreamOf stream) {
    std::unique_ptr<Group> group = split(members, stream);
    std::vector<int64_t> ranks = members;
    if (!seat_.ranks().empty())
      for (int64_t& rank : ranks) rank = seat_.ranks()[static_cast<size_t>(rank)];
    group->seat_.set_ranks(std::move(ranks));
    return group;
  }
  // Makes the call when all earlier calls have ended, and records it then.
  template <class Now>
  void call(const char* name, const at::Tensor& tensor, int64_t peer, const Now& now) {
    stream().run([&] {
      const auto bytes = static_cast<int64_t>(tensor.nbytes());
      trace::FlightScope recorded(seat_, name, bytes, peer);
      if (size() == 1) return now();
      const trace::SpanScope span(name, bytes, seat_);
      now();
      if (recorded.number() != 0 && ends_later(recorded.number())) recorded.leave_open();
    });
  }

  trace::FlightSeat seat_;
};

// The group of one.
std::unique_ptr<Group> single();
// The same for one rank of several. Borrows both. `before_split`: what this rank must do when the other groups split.
std::unique_ptr<Group> single(Control& control, Stream& stream, std::function<void()> before_split = {});

}  // namespace hearth::comm
