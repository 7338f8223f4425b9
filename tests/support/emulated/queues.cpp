// SPDX-License-Identifier: Apache-2.0
#include "support/emulated/queues.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace hearth::test::emulated {
namespace {

constexpr auto kStuck = std::chrono::minutes(3);

// A step runs in any host thread, and these have different numbers of OpenMP threads. Sums would round differently.
void run_with_one_thread(const Step& step) {
  const int before = at::get_num_threads();
  if (before != 1) at::set_num_threads(1);
  step.run();
  if (before != 1) at::set_num_threads(before);
}

}  // namespace

Queues& Queues::all() {
  static auto* const queues = new Queues;  // threads may still use it while the process exits
  return *queues;
}

void Queues::begin(uint64_t seed, Fault fault) {
  run_until([&] {
    for (const auto& [name, queue] : queues_)
      if (!queue->steps_.empty()) return false;
    return true;
  });
  const std::lock_guard lock(mutex_);
  devices_of_threads_.clear();
  random_ = seed * 0x9E3779B97F4A7C15u + 1;
  in_order_ = seed == 0;
  eager_eighths_ = seed % 4 == 1 ? 4 : seed % 4 == 2 ? 1 : 0;
  fault_ = fault;
  std::erase_if(queues_, [](const auto& named) { return named.second->stream() != 0; });
  for (const auto& [name, queue] : queues_) queue->priority_ = draw(1 << 16);
}

uint64_t Queues::draw(uint64_t end) {
  uint64_t x = random_ += 0x9E3779B97F4A7C15u;  // SplitMix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return (x ^ (x >> 31)) % end;
}

Queue* Queues::find(int device, int64_t stream) {
  auto& queue = queues_[{device, stream}];
  if (!queue) queue = std::make_unique<Queue>(device, stream, draw(1 << 16));
  return queue.get();
}

Queue* Queues::queue(int device, int64_t stream) {
  const std::lock_guard lock(mutex_);
  return find(device, stream);
}

int64_t Queues::new_stream() {
  const std::lock_guard lock(mutex_);
  return ++streams_;
}

void Queues::push(Queue* queue, Step step) {
  queue->steps_.push_back(std::move(step));
  if (in_order_) {
    while (run_one()) {
    }
  } else if (draw(8) < eager_eighths_) {
    run_one();
  }
  changed_.notify_all();
}

void Queues::enqueue(Queue* queue, Step step) {
  const std::lock_guard lock(mutex_);
  push(queue, std::move(step));
}

std::shared_ptr<Mark> Queues::mark(Queue* queue) {
  const std::lock_guard lock(mutex_);
  if (fault_ == Fault::kMarkOfTheWrongStream && queue->stream() != 0) queue = find(queue->device(), 0);
  auto mark = std::make_shared<Mark>();
  push(queue, {.run = [mark] { mark->is_reached = true; }});
  return mark;
}

void Queues::wait_for(Queue* queue, std::shared_ptr<Mark> mark) {
  const std::lock_guard lock(mutex_);
  if (fault_ == Fault::kNoWaitForTheCaller && queue->stream() != 0) return;
  if (fault_ == Fault::kNoWaitForTheTransfer && queue->stream() == 0) return;
  push(queue, {.run = [] {}, .may_run = [mark = std::move(mark)] { return mark->is_reached; }});
}

bool Queues::query(const std::shared_ptr<Mark>& mark) {
  const std::lock_guard lock(mutex_);
  if (!mark->is_reached && run_one()) changed_.notify_all();
  return mark->is_reached;
}

void Queues::synchronize(Queue* queue) {
  if (fault_ == Fault::kNoSynchronize) return;
  run_until([queue] { return queue->steps_.empty(); });
}

void Queues::synchronize(const std::shared_ptr<Mark>& mark) {
  if (fault_ == Fault::kNoSynchronize) return;
  run_until([&] { return mark->is_reached; });
}

void Queues::locked(const std::function<void()>& body) {
  const std::lock_guard lock(mutex_);
  body();
  changed_.notify_all();
}

void Queues::run_until(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  while (!done()) {
    if (run_one()) {
      changed_.notify_all();
      const bool yields = draw(4) == 0;
      lock.unlock();  // others may enqueue between two steps
      if (yields) std::this_thread::yield();
      lock.lock();
    } else if (changed_.wait_for(lock, kStuck) == std::cv_status::timeout) {
      print_and_end();
    }
  }
}

bool Queues::run_one() {
  Queue* next = nullptr;
  for (const auto& [name, queue] : queues_) {
    if (queue->steps_.empty()) continue;
    const Step& step = queue->steps_.front();
    // Every first step is asked: so those of a collective learn that all have come.
    if (step.may_run && !step.may_run()) continue;
    if (next == nullptr || queue->priority_ > next->priority_) next = queue.get();
  }
  if (next == nullptr) return false;
  const Step step = std::move(next->steps_.front());
  next->steps_.pop_front();
  run_with_one_thread(step);
  if (draw(4) == 0) next->priority_ = draw(1 << 16);
  return true;
}

void Queues::device_was_set(int device) {
  const std::lock_guard lock(mutex_);
  devices_of_threads_[std::this_thread::get_id()].insert(device);
}

int64_t Queues::threads_on_several_devices() {
  const std::lock_guard lock(mutex_);
  int64_t count = 0;
  for (const auto& [thread, devices] : devices_of_threads_) count += devices.size() > 1 ? 1 : 0;
  return count;
}

void Queues::print_and_end() {
  std::fprintf(stderr, "the emulated device is stuck:\n");
  for (const auto& [name, queue] : queues_)
    std::fprintf(stderr, "  device %d, stream %ld: %zu steps\n", name.first, static_cast<long>(name.second),
                 queue->steps_.size());
  std::abort();
}

}  // namespace hearth::test::emulated
