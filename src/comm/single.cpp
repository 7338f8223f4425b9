#include <atomic>

#include "comm/buffers.h"
#include "comm/group.h"

namespace hearth::comm {

namespace {

class Single final : public Group {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }

  void all_gather(at::Tensor full, const at::Tensor& shard) override {
    check_alive();
    const Buffer to = buffer_of(full, "all_gather"), from = buffer_of(shard, "all_gather");
    check_shard(to, from, 0, 1, "all_gather");
    if (to.data != from.data) full.view({-1}).copy_(shard.view({-1}));
  }
  void reduce_scatter(at::Tensor shard, const at::Tensor& full) override {
    check_alive();
    const Buffer to = buffer_of(shard, "reduce_scatter"), from = buffer_of(full, "reduce_scatter");
    check_shard(from, to, 0, 1, "reduce_scatter");
    check_summable(from, "reduce_scatter");
    if (to.data != from.data) shard.view({-1}).copy_(full.view({-1}));
  }
  void all_reduce(at::Tensor values) override {
    check_alive();
    check_summable(buffer_of(values, "all_reduce"), "all_reduce");
  }
  double all_reduce(double value) override { return check_alive(), value; }
  bool any(bool value) override { return check_alive(), value; }
  std::vector<std::string> all_gather_bytes(const std::string& bytes) override {
    return check_alive(), std::vector{bytes};
  }
  void barrier() override { check_alive(); }
  void abort() override { aborted_ = true; }

 private:
  void check_alive() const {
    if (aborted_) throw Aborted{};
  }
  std::atomic<bool> aborted_ = false;
};

}  // namespace

std::unique_ptr<Group> single() { return std::make_unique<Single>(); }

}  // namespace hearth::comm
