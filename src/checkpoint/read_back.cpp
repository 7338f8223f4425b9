// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read_back.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "base/direct_io.h"
#include "base/error.h"
#include "base/hash.h"

namespace hearth::checkpoint {
namespace {

constexpr int64_t kReadAtOnce = int64_t{4} << 20;

}  // namespace

struct ReadBack::State {
  File& writer;
  const int64_t portion;
  File reader = File::open_read(writer.path()), direct_reader = File::open_read(writer.path());
  int64_t asked_for = 0;  // bytes that the system was asked to begin writing

  std::mutex mutex{};  // of what follows
  std::condition_variable changed{};
  std::vector<int64_t> lengths{};  // of the items
  int64_t end = 0;                 // of the file
  bool ended = false;              // the thread ends
  std::exception_ptr error{};

  // These belong to the thread while there is one, then to finish().
  int64_t done = 0;       // bytes that were read
  int64_t item_left = 0;  // of the item that was begun last
  StreamingHash hash{};
  bool reads_directly = false;
  std::vector<uint64_t> digests{};

  std::jthread thread{};

  int64_t length_of(size_t item) {
    const std::lock_guard lock(mutex);
    HEARTH_CHECK(item < lengths.size(), "bytes of no item");
    return lengths[item];
  }

  // Fsyncs, and reads and hashes the bytes from `done` to `until`.
  void check(int64_t until) {
    writer.sync();
    // Drops the bytes from the page cache: the read goes to the disk. Only a hint: some file systems keep them.
    ::posix_fadvise(reader.descriptor(), done, until - done, POSIX_FADV_DONTNEED);
    const DirectBuffer buffer(static_cast<size_t>(kReadAtOnce));
    while (done < until) {
      int64_t size = std::min(kReadAtOnce, until - done);
      const bool is_direct = reads_directly && size >= kDirectBlock;
      if (is_direct) size = size / kDirectBlock * kDirectBlock;  // the rest of the file follows
      const std::span<std::byte> part = buffer.bytes().first(static_cast<size_t>(size));
      (is_direct ? direct_reader : reader).read_at(done, part);
      done += size;
      hash_items(part);
    }
  }

  void hash_items(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (item_left == 0) {
        item_left = length_of(digests.size());
        hash = StreamingHash();
      }
      const auto size = static_cast<size_t>(std::min(item_left, static_cast<int64_t>(bytes.size())));
      hash.update(bytes.first(size));
      bytes = bytes.subspan(size);
      item_left -= static_cast<int64_t>(size);
      if (item_left == 0) digests.push_back(hash.digest_64());
    }
  }

  // Asks once, when there is a block to try.
  void find_reader() {
    const DirectBuffer block(static_cast<size_t>(kDirectBlock));
    reads_directly = set_direct(direct_reader, true) &&
                     ::pread(direct_reader.descriptor(), block.bytes().data(), kDirectBlock, 0) == kDirectBlock;
  }

  // The thread: whole portions, as they come. They begin and end at pages, which nobody writes any more.
  void check_portions() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ended || end - done >= portion; });
      if (ended) return;
      const int64_t until = end / portion * portion;
      lock.unlock();
      try {
        if (done == 0) find_reader();
        check(until);
      } catch (...) {
        lock.lock();
        error = std::current_exception();
        return;
      }
      lock.lock();
    }
  }

  void throw_error() {
    const std::lock_guard lock(mutex);
    if (error) std::rethrow_exception(error);
  }

  void end_thread() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    changed.notify_one();
    if (thread.joinable()) thread.join();
  }
};

ReadBack::ReadBack(File& file, int64_t portion_bytes)
    : state_(std::unique_ptr<State>(new State{.writer = file, .portion = portion_bytes})) {}
ReadBack::~ReadBack() { state_->end_thread(); }

void ReadBack::begin_item(int64_t length) {
  const std::lock_guard lock(state_->mutex);
  state_->lengths.push_back(length);
}

void ReadBack::written(int64_t end) {
  State& s = *state_;
  s.throw_error();
  if (end == s.asked_for) return;
  // Otherwise the system waits until it has a second's worth of bytes, and then makes the writer wait. Only a hint.
  ::sync_file_range(s.writer.descriptor(), s.asked_for, end - s.asked_for, SYNC_FILE_RANGE_WRITE);
  s.asked_for = end;
  {
    const std::lock_guard lock(s.mutex);
    s.end = end;
  }
  if (!s.thread.joinable() && end >= s.portion) s.thread = std::jthread([&s] { s.check_portions(); });
  s.changed.notify_one();
}

std::vector<uint64_t> ReadBack::finish() {
  State& s = *state_;
  s.end_thread();
  s.throw_error();
  s.check(s.end);
  HEARTH_CHECK(s.item_left == 0 && s.digests.size() == s.lengths.size(), "an item is not complete");
  return std::move(s.digests);
}

}  // namespace hearth::checkpoint
