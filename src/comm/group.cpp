// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <map>

#include "base/error.h"
#include "comm/buffers.h"
#include "comm/group.h"

namespace hearth::comm {

namespace {

class SingleControl final : public Control {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  Posted post(std::string_view operation, std::string_view bytes, NoteMerge, Answers) override {
    if (aborted_) throw Aborted{};
    posted_.emplace(++number_, bytes);
    return {number_, std::string(operation)};
  }
  std::string collect(const Posted& posted) override {
    if (aborted_) throw Aborted{};
    return posted_.extract(posted.number).mapped();
  }
  void abort() override { aborted_ = true; }
  void set_step(int64_t) override {}
  void set_timeout(double) override {}

 private:
  std::atomic<bool> aborted_ = false;
  uint64_t number_ = 0;
  std::map<uint64_t, std::string> posted_;
};

class Single final : public Group {
 public:
  Single() : own_control_(std::make_unique<SingleControl>()), control_(*own_control_), stream_(own_stream_) {}
  Single(Control& control, Stream& stream, std::function<void()> before_split)
      : control_(control), stream_(stream), before_split_(std::move(before_split)) {}
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  Control& control() override { return control_; }
  Stream& stream() override { return stream_; }

 protected:
  std::unique_ptr<Group> split(const std::vector<int64_t>& members, StreamOf) override {
    HEARTH_CHECK(members == std::vector<int64_t>{0}, "{} members of one rank", members.size());
    if (before_split_) before_split_();
    return single(control_, stream_, before_split_);
  }
  void all_gather_now(at::Tensor full, const at::Tensor& shard) override {
    const TensorMemory to = buffer_of(full, "all_gather"), from = buffer_of(shard, "all_gather");
    check_shard(to, from, 0, 1, "all_gather");
    if (to.data != from.data) full.view({-1}).copy_(shard.view({-1}));
  }
  void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) override {
    const TensorMemory to = buffer_of(shard, "reduce_scatter"), from = buffer_of(full, "reduce_scatter");
    check_shard(from, to, 0, 1, "reduce_scatter");
    check_summable(from, "reduce_scatter");
    if (to.data != from.data) shard.view({-1}).copy_(full.view({-1}));
  }
  void all_reduce_now(at::Tensor values) override { check_summable(buffer_of(values, "all_reduce"), "all_reduce"); }
  void all_to_all_now(at::Tensor to, const at::Tensor& from, const ExchangeCounts& counts) override {
    const auto [received, sent] =
        exchange_of(buffer_of(to, "all_to_all"), buffer_of(from, "all_to_all"), counts.to, counts.from, 1);
    HEARTH_CHECK(received.counts == sent.counts, "all_to_all: {} elements to {}", sent.count(0), received.count(0));
    to.view({-1}).copy_(from.view({-1}));
  }
  void send_now(const at::Tensor&, int64_t to) override { HEARTH_CHECK(false, "one rank sends to {}", to); }
  void recv_now(at::Tensor, int64_t from) override { HEARTH_CHECK(false, "one rank receives from {}", from); }

 private:
  std::unique_ptr<SingleControl> own_control_;
  Stream own_stream_{[] {}};
  Control& control_;
  Stream& stream_;
  std::function<void()> before_split_;
};

}  // namespace

std::unique_ptr<Group> single() { return std::make_unique<Single>(); }
std::unique_ptr<Group> single(Control& control, Stream& stream, std::function<void()> before_split) {
  return std::make_unique<Single>(control, stream, std::move(before_split));
}

}  // namespace hearth::comm
