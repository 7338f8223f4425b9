#include "comm/nccl_group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "comm/buffers.h"
#include "comm/device_order.h"
#include "comm/nccl_library.h"

namespace hearth::comm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(50);

int type_of(const Buffer& buffer) {
  return buffer.type == at::kFloat ? nccl::kFloat32 : buffer.type == at::kDouble ? nccl::kFloat64 : nccl::kBfloat16;
}

// Looks after the calls under way in a thread of its own.
class Watch {
 public:
  Watch(const NcclLibrary& library, Control& control, const NcclOptions& options)
      : library_(library), control_(control), options_(options), thread_([this] { look(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(nccl::Comm comm) {
    const std::lock_guard lock(mutex_);
    comms_.push_back(comm);
  }
  // Aborts all communicators: their calls then return.
  void abort() {
    const std::lock_guard lock(mutex_);
    for (nccl::Comm comm : std::exchange(comms_, {})) library_.api().CommAbort(comm);
  }
  std::vector<nccl::Comm> take_comms() {
    const std::lock_guard lock(mutex_);
    return std::exchange(comms_, {});
  }

  void begin(const char* operation, int64_t numel) {
    const std::lock_guard lock(mutex_);
    calls_.push_back({operation, numel, Clock::now(), false, nullptr});
  }
  // The call was enqueued, up to `mark`; null: it is done.
  void end(StreamMark mark) {
    const std::lock_guard lock(mutex_);
    calls_.back().enqueued = true;
    calls_.back().mark = std::move(mark);
  }

 private:
  struct Call {
    const char* operation;
    int64_t numel;
    Clock::time_point begun;
    bool enqueued;
    StreamMark mark;
  };

  void look() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kLook, [this] { return ending_; })) {
      while (!calls_.empty() && calls_.front().enqueued && (!calls_.front().mark || calls_.front().mark->query()))
        calls_.pop_front();
      if (const std::optional<Error> error = problem()) {
        lock.unlock();
        return options_.fail(*error);
      }
    }
  }

  std::optional<Error> problem() const {
    for (nccl::Comm comm : comms_) {
      int error = nccl::kSuccess;
      library_.api().CommGetAsyncError(comm, &error);
      if (error == nccl::kSuccess || error == nccl::kInProgress) continue;
      return Error(ExitCode::kHardware,
                   fmt::format("NCCL on rank {}: {}", control_.rank(), library_.api().GetErrorString(error)),
                   library_.api().GetLastError(comm), "see the output with NCCL_DEBUG=INFO");
    }
    if (calls_.empty() || Clock::now() - calls_.front().begun < std::chrono::duration<double>(options_.timeout_s))
      return std::nullopt;
    return Error(ExitCode::kHardware,
                 fmt::format("rank {} waited {} in {} of {} elements through NCCL", control_.rank(),
                             format_duration(options_.timeout_s), calls_.front().operation, calls_.front().numel),
                 "another rank did not make the call, or the fabric does not deliver",
                 "see the other ranks' logs; comm.train_timeout_seconds is the limit");
  }

  const NcclLibrary& library_;
  Control& control_;
  const NcclOptions options_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool ending_ = false;
  std::vector<nccl::Comm> comms_;
  std::deque<Call> calls_;
  std::thread thread_;
};

// Shared by a group and all groups split from it.
struct Common {
  Common(const NcclOptions& given, Control& all)
      : options(given),
        control(all),
        library(given.library),
        order(given.device.is_cpu() ? nullptr : std::make_shared<DeviceOrder>(given.device)),
        watch(library, all, given),
        stream([this] { watch.abort(); }, order) {}
  ~Common() {
    for (nccl::Comm comm : watch.take_comms()) library.api().CommDestroy(comm);
  }

  const NcclOptions options;
  Control& control;
  const NcclLibrary library;
  const std::shared_ptr<DeviceOrder> order;  // null on a CPU
  Watch watch;
  Stream stream;
};

class NcclGroup final : public Group {
 public:
  NcclGroup(std::shared_ptr<Common> common, nccl::Comm comm, int64_t rank, int64_t size)
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
    const bool alone = members.size() == 1;
    nccl::Comm part = nullptr;
    const int color = alone ? nccl::kSplitNoColor : static_cast<int>(members.front());
    this->stream().run(
        [&] { check(api().CommSplit(comm_, color, static_cast<int>(rank_), &part, nullptr), "ncclCommSplit"); });
    if (alone) return single(control(), this->stream());
    const auto common =
        stream == StreamOf::kAll ? common_ : std::make_shared<Common>(common_->options, common_->control);
    return std::make_unique<NcclGroup>(common, part, place - members.begin(), std::ssize(members));
  }

  void all_gather_now(at::Tensor full, const at::Tensor& shard) override {
    const Buffer to = buffer_here(full, "all_gather"), from = buffer_here(shard, "all_gather");
    check_shard(to, from, rank_, size_, "all_gather");
    enqueue("all_gather", from.numel, [&](nccl::Stream stream) {
      return api().AllGather(from.data, to.data, bytes_of(from), nccl::kUint8, comm_, stream);
    });
  }

  void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) override {
    const Buffer to = buffer_here(shard, "reduce_scatter"), from = buffer_here(full, "reduce_scatter");
    check_shard(from, to, rank_, size_, "reduce_scatter");
    check_summable(from, "reduce_scatter");
    if (common_->options.ordered) return add_parts(shard.view({-1}), full.view({size_, -1}));
    enqueue("reduce_scatter", from.numel, [&](nccl::Stream stream) {
      return api().ReduceScatter(from.data, to.data, count_of(to), type_of(to), nccl::kSum, comm_, stream);
    });
  }

  void all_reduce_now(at::Tensor values) override {
    const Buffer all = buffer_here(values, "all_reduce");
    check_summable(all, "all_reduce");
    if (common_->options.ordered) return all_reduce_in_order(values);
    enqueue("all_reduce", all.numel, [&](nccl::Stream stream) {
      return api().AllReduce(all.data, all.data, count_of(all), type_of(all), nccl::kSum, comm_, stream);
    });
  }

  void all_to_all_now(at::Tensor to, const at::Tensor& from) override {
    const Buffer out = buffer_here(to, "all_to_all"), in = buffer_here(from, "all_to_all");
    check_exchange(out, in, size_, "all_to_all");
    exchange(out, in);
  }

  void send_now(const at::Tensor& values, int64_t to) override {
    const Buffer from = buffer_here(values, "send");
    enqueue("send", from.numel, [&](nccl::Stream stream) {
      return api().Send(from.data, bytes_of(from), nccl::kUint8, static_cast<int>(to), comm_, stream);
    });
  }
  void recv_now(at::Tensor values, int64_t from) override {
    const Buffer to = buffer_here(values, "recv");
    enqueue("recv", to.numel, [&](nccl::Stream stream) {
      return api().Recv(to.data, bytes_of(to), nccl::kUint8, static_cast<int>(from), comm_, stream);
    });
  }

 private:
  const nccl::Api& api() const { return common_->library.api(); }
  void check(int result, const char* call) const { common_->library.check(result, call, comm_); }
  static size_t count_of(const Buffer& buffer) { return static_cast<size_t>(buffer.numel); }
  static size_t bytes_of(const Buffer& buffer) { return static_cast<size_t>(buffer.numel * buffer.element_bytes); }

  Buffer buffer_here(const at::Tensor& tensor, std::string_view operation) const {
    HEARTH_CHECK(tensor.device() == common_->options.device, "{} of a tensor on {}", operation, tensor.device().str());
    return buffer_of(tensor, operation);
  }

  template <class Call>
  void enqueue(const char* operation, int64_t numel, const Call& call) {
    if (numel == 0) return;
    const DeviceOrder* const order = common_->order.get();
    common_->watch.begin(operation, numel);
    const int result = call(order == nullptr ? nullptr : order->native_stream());
    common_->watch.end(order == nullptr ? nullptr : order->mark());
    check(result, operation);
  }

  void exchange(const Buffer& to, const Buffer& from) {
    const int64_t n = from.numel / size_;
    const auto bytes = static_cast<size_t>(n * from.element_bytes);
    enqueue("all_to_all", from.numel, [&](nccl::Stream stream) {
      int result = api().GroupStart();
      for (int peer = 0; peer < static_cast<int>(size_) && result == nccl::kSuccess; ++peer) {
        result = api().Send(from.at(peer * n), bytes, nccl::kUint8, peer, comm_, stream);
        if (result == nccl::kSuccess) result = api().Recv(to.at(peer * n), bytes, nccl::kUint8, peer, comm_, stream);
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
  const nccl::Comm comm_;
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
  nccl::Comm comm = nullptr;
  control.together("NCCL's ranks", [&] {
    common->library.check(common->library.api().CommInitRank(&comm, static_cast<int>(control.size()), id,
                                                             static_cast<int>(control.rank())),
                          "ncclCommInitRank");
  });
  return std::make_unique<NcclGroup>(common, comm, control.rank(), control.size());
}

}  // namespace hearth::comm
