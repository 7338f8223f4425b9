// SPDX-License-Identifier: Apache-2.0
// The communication stream of a process: calls to its groups run one after the other, in the order in which they were
// started. So all ranks make their calls in one total order, whichever groups the calls belong to. (Communicators that
// run at the same time deadlock on some GPUs: ROCm/rccl#2191.) Only the stages of a pipeline transfer in a second
// stream: a transfer that waits for another stage must not hold up the collectives of this one.
//
// On a GPU a call only enqueues work (comm/device_order.h). That work begins after everything that the caller enqueued
// earlier. After a wait, the caller's later work runs after it.
//
// A started call runs in a thread of the stream, while the caller computes. A call that the caller waits for runs in
// the caller's thread if nothing is under way. All calls are Local.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/device_order.h"
#include "trace/spans.h"

namespace hearth::comm {

// A started call. A default Work is done.
class Work {
 public:
  Work() = default;

  // Waits for the call, and throws what it threw.
  void wait() const;
  bool done() const;

 private:
  friend class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

class Stream {
 public:
  // `abandon` makes the waits inside the running call, and inside later calls, throw. `order`: for the tensors' GPU;
  // null on a CPU.
  explicit Stream(std::function<void()> abandon, std::shared_ptr<const DeviceOrder> order = nullptr)
      : abandon_(std::move(abandon)), order_(std::move(order)) {}
  ~Stream();  // as finish()
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Runs `call` after all earlier calls, and returns before that. What `call` uses must live until the Work is done.
  // After one call has thrown, every later call throws the same error.
  Work start(std::function<void()> call);
  // The same, and waits. A call of this stream may make further ones, which are parts of it.
  void run(const std::function<void()>& call);
  // Waits for the started calls. If an exception is being thrown, abandons them first, because the other ranks may
  // never make these calls. For destructors of objects that the calls use. Errors stay with the calls' Work.
  void finish();

 private:
  struct Started {
    std::function<void()> call;
    StreamMark after;  // null on a CPU
    std::shared_ptr<Work::State> state;
    trace::SpanRecorder* spans;  // the caller's; null: none
  };
  void work();

  const std::function<void()> abandon_;
  const std::shared_ptr<const DeviceOrder> order_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Started> waiting_;
  bool busy_ = false, stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // begins with the first started call
};

}  // namespace hearth::comm
