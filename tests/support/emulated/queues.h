// SPDX-License-Identifier: Apache-2.0
// The streams of the emulated device (support/emulated_device.h): queues of steps that run late. A step runs in any
// host thread that waits for something, and in any order that the queues and their marks allow. A seed chooses it.
//
// A step is atomic: it reads and writes memory while no other step runs. All members may be called by any thread, but
// not within a step.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "support/emulated_device.h"

namespace hearth::test::emulated {

// A place in a queue.
struct Mark {
  bool is_reached = false;  // read it within Queues::locked()
};

struct Step {
  std::function<void()> run;
  std::function<bool()> may_run = {};  // asked when the step is the first of its queue; empty: always
};

class Queue;

class Queues {
 public:
  static Queues& all();

  // Ends the steps so far, and begins anew with this seed. Only while no other thread uses the device: of its queues,
  // the default streams' remain.
  void begin(uint64_t seed, Fault fault);
  Fault fault() const { return fault_; }

  // Created at the first call.
  Queue* queue(int device, int64_t stream);
  int64_t new_stream();

  void enqueue(Queue* queue, Step step);
  // The queue's present end.
  std::shared_ptr<Mark> mark(Queue* queue);
  void wait_for(Queue* queue, std::shared_ptr<Mark> mark);

  // Host threads. A query lets the device go on: a host that asks again and again must hear yes at last.
  bool query(const std::shared_ptr<Mark>& mark);
  void synchronize(Queue* queue);
  void synchronize(const std::shared_ptr<Mark>& mark);
  // Runs steps until `done`, which is asked while no step runs. Ends the process, and prints the queues, if nothing
  // happens for minutes.
  void run_until(const std::function<bool()>& done);
  // Runs `body` while no step runs. Others that wait look again.
  void locked(const std::function<void()>& body);
  // A number below `end` that the seed chooses. Within a step, or within locked().
  uint64_t draw(uint64_t end);

  // The calling thread makes `device` its own.
  void device_was_set(int device);
  int64_t threads_on_several_devices();

 private:
  Queue* find(int device, int64_t stream);
  // Runs one step that may run, and says whether there was one.
  bool run_one();
  void push(Queue* queue, Step step);
  [[noreturn]] void print_and_end();

  std::mutex mutex_;  // guards the members below, and is held while a step runs
  std::condition_variable changed_;
  std::map<std::pair<int, int64_t>, std::unique_ptr<Queue>> queues_;
  std::map<std::thread::id, std::set<int>> devices_of_threads_;
  uint64_t random_ = 0;
  uint64_t eager_eighths_ = 0;  // how often an enqueued step makes the device go on at once
  bool in_order_ = false;       // everything runs at once
  int64_t streams_ = 0;
  Fault fault_ = Fault::kNone;
};

class Queue {
 public:
  Queue(int device, int64_t stream, uint64_t priority) : device_(device), stream_(stream), priority_(priority) {}
  int device() const { return device_; }
  int64_t stream() const { return stream_; }

 private:
  friend class Queues;
  const int device_;
  const int64_t stream_;
  uint64_t priority_;
  std::deque<Step> steps_;
};

}  // namespace hearth::test::emulated
