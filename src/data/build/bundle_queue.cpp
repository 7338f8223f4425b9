// SPDX-License-Identifier: Apache-2.0
#include "data/build/bundle_queue.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

namespace hearth::data {
namespace {

struct Stopped {};  // thrown inside a reader when another thread has failed

class Workers {
 public:
  using Read = std::function<void(size_t, const std::function<void(Bundle)>&)>;
  using Write = std::function<void(Bundle)>;

  Workers(size_t first, size_t end, int64_t threads, const Read& read, const Write& write)
      : next_unit_(first), end_unit_(end), threads_(threads), read_(read), write_(write) {}

  void run() {
    std::vector<std::thread> others;
    for (int64_t i = 1; i < threads_; ++i) others.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : others) thread.join();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  // Waiting bundles first: they hold memory.
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (failure_ != nullptr) break;
      if (!waiting_.empty()) {
        Bundle bundle = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        const size_t portion = bundle.portion();
        guarded(portion, [&] { write_(std::move(bundle)); });
        lock.lock();
      } else if (next_unit_ < end_unit_) {
        const size_t portion = next_unit_++;
        ++readers_;
        lock.unlock();
        guarded(portion, [&] { read_(portion, [this](Bundle bundle) { emit(std::move(bundle)); }); });
        lock.lock();
        --readers_;
      } else if (readers_ == 0) {
        break;
      } else {
        changed_.wait(lock);
        continue;
      }
      changed_.notify_all();
    }
    changed_.notify_all();
  }

  void emit(Bundle bundle) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_ != nullptr) throw Stopped();
      if (static_cast<int64_t>(waiting_.size()) < threads_ - 1) {
        waiting_.push_back(std::move(bundle));
        changed_.notify_one();
        return;
      }
    }
    write_(std::move(bundle));
  }

  template <typename Body>
  void guarded(size_t portion, const Body& body) {
    try {
      body();
    } catch (const Stopped&) {
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr || portion < failed_unit_) {
        failed_unit_ = portion;
        failure_ = std::current_exception();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Bundle> waiting_;
  size_t next_unit_, end_unit_;
  int64_t threads_, readers_ = 0;
  size_t failed_unit_ = 0;
  std::exception_ptr failure_;
  const Read& read_;
  const Write& write_;
};

}  // namespace

void run_portions(size_t first, size_t end, int64_t threads,
                  const std::function<void(size_t portion, const std::function<void(Bundle)>& emit)>& read,
                  const std::function<void(Bundle)>& write) {
  Workers(first, end, threads, read, write).run();
}

}  // namespace hearth::data
