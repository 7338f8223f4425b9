// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_group.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/quantity.h"
#include "comm/buffers.h"
#include "comm/device_order.h"
#include "comm/nccl_library.h"
#include "comm/nccl_watch.h"

namespace hearth::comm {
namespace {

int type_of(const TensorMemory& buffer) {
  return buffer.type == at::kFloat ? nccl::kFloat32 : buffer.type == at::kDouble ? nccl::kFloat64 : nccl::kBfloat16;
}

// Shared by a group and all groups split from it.
struct Common {
  Common(const NcclOptions& given, Control& all)
      : options(given),
        control(all),
        library(given.library),
        order(given.device.is_cpu() ? nullptr : std::make_shared<DeviceOrder>(given.device)),
        watch(library, all.rank(), order, {given.timeout_s, given.abort_s, given.sign_s, given.hang}, given.fail),
        stream([this] { watch.abort(); }, order) {}
  ~Common() {
    for (nccl::Communicator comm : watch.take_comms()) library.api().CommDestroy(comm);
  }

  const NcclOptions options;
  Control& control;
  const NcclLibrary library;
  const std::shared_ptr<DeviceOrder> order;  // null on a CPU
  NcclWatch watch;
  Stream stream;
};

class NcclGroup final : public Group {
 public:
  NcclGroup(std::shared_ptr<Common> common, nccl::Communicator comm, int64_t rank, int64_t size)
      : common_(std::move(common)), comm_(comm), rank_(rank), size_(size) {
    common_->watch.add(comm);
  }
  ~NcclGroup() override { common_->stream.finish(); }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  Control& control() override { return common_->control; }
  Stream& stream() override { return common_->stream; }

 protected:
  std::unique_ptr<Group> split(const std::vector<int64_t>& members, StreamOf stream) override {
    const auto place = std::find(members.begin(), members.end(), rank_);
    HEARTH_CHECK(place != members.end(), "rank {} is not in its group", rank_);
    HEARTH_CHECK(stream == StreamOf::kAll || common_->options.splits_apart, "a group that shares has one stream");
    const bool alone = members.size() == 1;
    nccl::Communicator part = nullptr;
    const int color = alone ? nccl::kSplitNoColor : static_cast<int>(members.front());
    this->stream().run([&] {
      const int result = common_->watch.watched(
          "ncclCommSplit", -1, [&] { return api().CommSplit(comm_, color, static_cast<int>(rank_), &part, nullptr); });
      check(result, "ncclCommSplit");
    });
    if (alone) return single(control(), this->stream());
    const auto common =
        stream == StreamOf::kAll ? common_ : std::make_shared<Common>(common_->options, common_->control);
    return std::make_unique<NcclGroup>(common, part, place - members.begin(), std::ssize(members));
  }

  void all_gather_now(at::Tensor full, const at::Tensor& shard) override {
    const TensorMemory to = buffer_here(full, "all_gather"), from = buffer_here(shard, "all_gather");
    check_shard(to, from, rank_, size_, "all_gather");
    enqueue("all_gather", from.numel, [&](nccl::StreamHandle stream) {
      return api().AllGather(from.data, to.data, bytes_of(from), nccl::kUint8, comm_, stream);
    });
  }

  void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) override {
    const TensorMemory to = buffer_here(shard, "reduce_scatter"), from = buffer_here(full, "reduce_scatter");
    check_shard(from, to, rank_, size_, "reduce_scatter");
    check_summable(from, "reduce_scatter");
    if (common_->options.ordered) return add_parts(shard.view({-1}), full.view({size_, -1}));
    enqueue("reduce_scatter", from.numel, [&](nccl::StreamHandle stream) {
      return api().ReduceScatter(from.data, to.data, count_of(to), type_of(to), nccl::kSum, comm_, stream);
    });
  }

  void all_reduce_now(at::Tensor values) override {
    const TensorMemory all = buffer_here(values, "all_reduce");
    check_summable(all, "all_reduce");
    if (common_->options.ordered) return all_reduce_in_order(values);
    enqueue("all_reduce", all.numel, [&](nccl::StreamHandle stream) {
      return api().AllReduce(all.data, all.data, count_of(all), type_of(all), nccl::kSum, comm_, stream);
    });
  }

  void all_to_all_now(at::Tensor to, const at::Tensor& from, const ExchangeCounts& counts) override {
    const TensorMemory out = buffer_here(to, "all_to_all"), in = buffer_here(from, "all_to_all");
    exchange(out, in, counts);
  }

  void send_now(const at::Tensor& values, int64_t to) override {
    const TensorMemory from = buffer_here(values, "send");
    enqueue("send", from.numel, [&](nccl::StreamHandle stream) {
      return api().Send(from.data, bytes_of(from), nccl::kUint8, static_cast<int>(to), comm_, stream);
    });
  }
  void recv_now(at::Tensor values, int64_t from) override {
    const TensorMemory to = buffer_here(values, "recv");
    enqueue("recv", to.numel, [&](nccl::StreamHandle stream) {
      return api().Recv(to.data, bytes_of(to), nccl::kUint8, static_cast<int>(from), comm_, stream);
    });
  }
  bool ends_later(uint64_t flight_number) override { return common_->watch.record_end_of_latest(flight_number); }

 private:
  const nccl::Api& api() const { return common_->library.api(); }
  void check(int result, const char* call) const {
    if (result == nccl::kRemoteError) common_->watch.let_others_speak();
    common_->library.check(result, call, comm_);
  }
  static size_t count_of(const TensorMemory& buffer) { return static_cast<size_t>(buffer.numel); }
  static size_t bytes_of(const TensorMemory& buffer) {
    return static_cast<size_t>(buffer.numel * buffer.element_bytes);
  }

  TensorMemory buffer_here(const at::Tensor& tensor, std::string_view operation) const {
    HEARTH_CHECK(tensor.device() == common_->options.device, "{} of a tensor on {}", operation, tensor.device().str());
    return buffer_of(tensor, operation);
  }

  template <class Call>
  void enqueue(const char* operation, int64_t numel, const Call& call) {
    if (numel == 0) return;
    const DeviceOrder* const order = common_->order.get();
    const int result = common_->watch.watched(
        operation, numel, [&] { return call(order == nullptr ? nullptr : order->native_stream()); });
    check(result, operation);
  }

  void exchange(const TensorMemory& to, const TensorMemory& from, const ExchangeCounts& counts = {}) {
    const Exchange all = exchange_of(to, from, counts.to, counts.from, size_);
    const ExchangeParts &received = all.to, &sent = all.from;
    // Every rank is in an exchange of unequal parts, also one that sends and receives nothing.
    enqueue("all_to_all", counts.from.empty() ? from.numel : 1, [&](nccl::StreamHandle stream) {
      const auto bytes = [&](const ExchangeParts& parts, int peer) {
        return static_cast<size_t>(parts.count(peer) * from.element_bytes);
      };
      int result = api().GroupStart();
      for (int peer = 0; peer < static_cast<int>(size_) && result == nccl::kSuccess; ++peer) {
        result = api().Send(sent.at(from, peer), bytes(sent, peer), nccl::kUint8, peer, comm_, stream);
        if (result == nccl::kSuccess)
          result = api().Recv(received.at(to, peer), bytes(received, peer), nccl::kUint8, peer, comm_, stream);
      }
      const int end = api().GroupEnd();
      return result == nccl::kSuccess ? end : result;
    });
  }

  // to = the sum over ranks of their row of this rank.
  void add_parts(const at::Tensor& to, const at::Tensor& parts_RN) {
    const at::Tensor received_RN = parts_RN.new_empty(parts_RN.sizes());
    exchange(buffer_of(received_RN, "all_to_all"), buffer_of(parts_RN, "all_to_all"));
    // Pairs of neighbours, until one is left; bfloat16 in float32, rounded once.
    std::vector<at::Tensor> sums;
    const at::Tensor wide_RN = to.scalar_type() == at::kBFloat16 ? received_RN.to(at::kFloat) : received_RN;
    for (int64_t r = 0; r < size_; ++r) sums.push_back(wide_RN.select(0, r));
    while (sums.size() > 1) {
      std::vector<at::Tensor> next;
      for (size_t i = 0; i < sums.size(); i += 2) {
        if (i + 1 < sums.size()) sums[i].add_(sums[i + 1]);
        next.push_back(sums[i]);
      }
      sums = std::move(next);
    }
    to.copy_(sums.front());
  }

  // Each rank adds one part, and all gather the parts.
  void all_reduce_in_order(const at::Tensor& values) {
    const int64_t part = div_ceil(values.numel(), size_);
    const at::Tensor padded = values.new_zeros({size_ * part});
    const at::Tensor own = padded.narrow(0, rank_ * part, part);
    padded.narrow(0, 0, values.numel()).copy_(values.view({-1}));
    const at::Tensor sum = values.new_empty({part});
    add_parts(sum, padded.view({size_, part}));
    own.copy_(sum);
    all_gather_now(padded, own);
    values.view({-1}).copy_(padded.narrow(0, 0, values.numel()));
  }

  std::shared_ptr<Common> common_;
  const nccl::Communicator comm_;
  const int64_t rank_, size_;
};

}  // namespace

std::unique_ptr<Group> nccl_group(Control& control, const NcclOptions& options) {
  std::shared_ptr<Common> common;
  control.together("NCCL's library", [&] { common = std::make_shared<Common>(options, control); });
  nccl::UniqueId id{};
  control.together("NCCL's identity", [&] {
    if (control.rank() == 0) common->library.check(common->library.api().GetUniqueId(&id), "ncclGetUniqueId");
  });
  const std::string bytes = control.broadcast("NCCL's identity", {id.internal, sizeof id.internal});
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  nccl::Communicator comm = nullptr;
  control.together("NCCL's ranks", [&] {
    nccl::Config config;
    config.splitShare = options.splits_apart ? 0 : 1;
    const int result = common->watch.watched("ncclCommInitRank", -1, [&] {
      return common->library.api().CommInitRankConfig(&comm, static_cast<int>(control.size()), id,
                                                      static_cast<int>(control.rank()), &config);
    });
    common->library.check(result, "ncclCommInitRank");
  });
  return std::make_unique<NcclGroup>(common, comm, control.rank(), control.size());
}

}  // namespace hearth::comm
