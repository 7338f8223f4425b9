#include <atomic>

#include "comm/buffers.h"
#include "comm/group.h"

namespace hearth::comm {

namespace {

class SingleControl final : public Control {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  std::vector<std::string> all_gather(std::string_view, std::string_view bytes) override {
    return check_alive(), std::vector{std::string(bytes)};
  }
  void abort() override { aborted_ = true; }
  void set_step(int64_t) override {}
  void set_timeout(double) override {}

  void check_alive() const {
    if (aborted_) throw Aborted{};
  }

 private:
  std::atomic<bool> aborted_ = false;
};

class Single final : public Group {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  Control& control() override { return control_; }

  void all_gather(at::Tensor full, const at::Tensor& shard) override {
    control_.check_alive();
    const Buffer to = buffer_of(full, "all_gather"), from = buffer_of(shard, "all_gather");
    check_shard(to, from, 0, 1, "all_gather");
    if (to.data != from.data) full.view({-1}).copy_(shard.view({-1}));
  }
  void reduce_scatter(at::Tensor shard, const at::Tensor& full) override {
    control_.check_alive();
    const Buffer to = buffer_of(shard, "reduce_scatter"), from = buffer_of(full, "reduce_scatter");
    check_shard(from, to, 0, 1, "reduce_scatter");
    check_summable(from, "reduce_scatter");
    if (to.data != from.data) shard.view({-1}).copy_(full.view({-1}));
  }
  void all_reduce(at::Tensor values) override {
    control_.check_alive();
    check_summable(buffer_of(values, "all_reduce"), "all_reduce");
  }
  void all_to_all(at::Tensor to, const at::Tensor& from) override {
    control_.check_alive();
    check_exchange(buffer_of(to, "all_to_all"), buffer_of(from, "all_to_all"), 1, "all_to_all");
    to.view({-1}).copy_(from.view({-1}));
  }

 private:
  SingleControl control_;
};

}  // namespace

std::unique_ptr<Group> single() { return std::make_unique<Single>(); }

}  // namespace hearth::comm
