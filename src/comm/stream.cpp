// SPDX-License-Identifier: Apache-2.0
#include "comm/stream.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <omp.h>

#include <utility>

namespace hearth::comm {

struct Work::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr failure;
  std::shared_ptr<const DeviceOrder> order;
  StreamMark end;  // of what the call enqueued; null on a CPU
};

void Work::wait() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  if (!state_->done) {
    const trace::SpanScope span(trace::SpanKind::kWait, "wait for communication");
    state_->changed.wait(lock, [&] { return state_->done; });
  }
  if (state_->failure) std::rethrow_exception(state_->failure);
  if (state_->end) state_->order->wait_for(state_->end);
}

bool Work::done() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

Stream::~Stream() {
  if (!thread_.joinable()) return;
  finish();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Work Stream::start(std::function<void()> call) {
  Work work;
  work.state_ = std::make_shared<Work::State>();
  work.state_->order = order_;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (!thread_.joinable()) thread_ = std::thread([this] { this->work(); });
    waiting_.push_back({std::move(call), order_ ? order_->mark() : nullptr, work.state_, trace::span_recorder()});
  }
  changed_.notify_all();
  return work;
}

void Stream::run(const std::function<void()>& call) {
  std::unique_lock lock(mutex_);
  if (thread_.get_id() == std::this_thread::get_id()) {
    lock.unlock();
    return call();
  }
  if (order_) {  // every call is enqueued in the one stream
    lock.unlock();
    return start(call).wait();
  }
  changed_.wait(lock, [&] { return (waiting_.empty() && !busy_) || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  lock.unlock();
  call();
}

void Stream::finish() {
  std::unique_lock lock(mutex_);
  if (std::uncaught_exceptions() > 0) abandon_();
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
}

void Stream::work() {
  const c10::InferenceMode no_gradients;
  at::init_num_threads();  // ATen's number first, or it would replace this one
  omp_set_num_threads(1);  // the caller's threads have the cores
  if (order_) order_->begin_thread();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Started next = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    std::exception_ptr failure = failure_;
    StreamMark end;
    lock.unlock();
    if (!failure) {
      try {
        if (order_) order_->wait_for(next.after);
        const trace::SpanSeat seat(next.spans, "communication");
        next.call();
        if (order_) end = order_->mark();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    next.call = nullptr;  // releases its tensors before anybody hears that it is done
    lock.lock();
    busy_ = false;
    failure_ = failure;
    changed_.notify_all();
    const std::lock_guard state_lock(next.state->mutex);
    next.state->done = true;
    next.state->end = std::move(end);
    next.state->failure = failure;
    next.state->changed.notify_all();
  }
}

}  // namespace hearth::comm
