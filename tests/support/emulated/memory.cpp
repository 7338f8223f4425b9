// SPDX-License-Identifier: Apache-2.0
#include "support/emulated/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "support/emulated/queues.h"

namespace hearth::test::emulated {
namespace {

constexpr size_t kRounding = 512;

struct Block {
  void* data;
  size_t bytes;
  int device;
  int64_t stream;
};

void poison(const Block& block) { std::memset(block.data, 0xFF, block.bytes); }

// As ATen's caching allocator: a freed block goes to the next who asks for its size in the same stream.
class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device = current_device();
    Block* const block = take(std::max(kRounding, (bytes + kRounding - 1) / kRounding * kRounding), device.index());
    return {block->data, block, free_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override { TORCH_CHECK(false, "nothing here records streams"); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& bytes = stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    bytes.current = allocated_[device];
    bytes.peak = peak_[device];
    stats.reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current = peak_[device];
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}

 private:
  Block* take(size_t bytes, int device) {
    const std::lock_guard lock(mutex_);
    allocated_[device] += static_cast<int64_t>(bytes);
    peak_[device] = std::max(peak_[device], allocated_[device]);
    std::vector<Block*>& free = free_[{device, current_stream(device), bytes}];
    if (!free.empty()) {
      Block* const block = free.back();
      free.pop_back();
      return block;
    }
    auto* block = new Block{std::aligned_alloc(kRounding, bytes), bytes, device, current_stream(device)};
    poison(*block);
    return block;
  }
  static void free_block(void* context);

  std::mutex mutex_;
  std::map<std::tuple<int, int64_t, size_t>, std::vector<Block*>> free_;  // by device, stream and bytes
  std::map<int, int64_t> allocated_, peak_;
};

DeviceMemory& the_memory() {
  static auto* const memory = new DeviceMemory;
  return *memory;
}

void DeviceMemory::free_block(void* context) {
  auto* const block = static_cast<Block*>(context);
  Queues& queues = Queues::all();
  const int64_t stream = queues.fault() == Fault::kFreedForAnotherStream ? 0 : block->stream;
  queues.enqueue(queues.queue(block->device, stream), {.run = [block] { poison(*block); }});
  DeviceMemory& memory = the_memory();
  const std::lock_guard lock(memory.mutex_);
  memory.allocated_[block->device] -= static_cast<int64_t>(block->bytes);
  memory.free_[{block->device, block->stream, block->bytes}].push_back(block);
}

// Pinned memory. A freed block stays until the copies that use it have run.
class PinnedMemory final : public c10::Allocator {
 public:
  struct Pinned {
    std::byte* data;
    size_t bytes;
    int64_t uses = 0;
    bool is_free = false;
  };
  c10::DataPtr allocate(size_t bytes) override {
    const size_t rounded = std::max(kRounding, (bytes + kRounding - 1) / kRounding * kRounding);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kRounding, rounded));
    std::memset(data, 0xFF, rounded);
    const std::lock_guard lock(mutex_);
    blocks_.emplace(data, Pinned{data, rounded});
    return {data, data, free_block, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool has(const void* data) {
    const std::lock_guard lock(mutex_);
    return find(data) != nullptr;
  }
  void add_use(const void* data, int64_t count) {
    const std::lock_guard lock(mutex_);
    Pinned* const block = find(data);
    if (block == nullptr) return;
    block->uses += count;
    release(*block);
  }

 private:
  static void free_block(void* data);
  Pinned* find(const void* data) {
    auto after = blocks_.upper_bound(static_cast<const std::byte*>(data));
    if (after == blocks_.begin()) return nullptr;
    Pinned& block = std::prev(after)->second;
    return data < block.data + block.bytes ? &block : nullptr;
  }
  void release(Pinned& block) {
    if (!block.is_free || block.uses > 0) return;
    std::byte* const data = block.data;
    std::memset(data, 0xFF, block.bytes);
    blocks_.erase(data);
    std::free(data);
  }

  std::mutex mutex_;
  std::map<const std::byte*, Pinned> blocks_;
};

PinnedMemory& the_pinned_memory() {
  static auto* const memory = new PinnedMemory;
  return *memory;
}

void PinnedMemory::free_block(void* data) {
  PinnedMemory& memory = the_pinned_memory();
  const std::lock_guard lock(memory.mutex_);
  Pinned* const block = memory.find(data);
  block->is_free = true;
  memory.release(*block);
}

}  // namespace

c10::DeviceAllocator* device_memory() { return &the_memory(); }
c10::Allocator* pinned_memory() { return &the_pinned_memory(); }
bool is_pinned(const void* data) { return the_pinned_memory().has(data); }
void use_begins(const void* data) { the_pinned_memory().add_use(data, 1); }
void use_ends(const void* data) { the_pinned_memory().add_use(data, -1); }

}  // namespace hearth::test::emulated
