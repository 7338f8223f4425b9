// SPDX-License-Identifier: Apache-2.0
// Reads a file back from the disk while it is still being written: what was written is fsynced, dropped from the page
// cache, read and hashed, a portion at a time, by a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/file.h"

namespace hearth::checkpoint {

class ReadBack {
 public:
  // Borrows `file`, which is empty and is written by the caller. The thread starts with the first whole portion, so a
  // small file needs no thread.
  explicit ReadBack(File& file, int64_t portion_bytes = int64_t{64} << 20);
  ~ReadBack();  // the thread stops after its portion
  ReadBack(const ReadBack&) = delete;

  // The next item has `length` bytes, above 0, which will be written now. Items fill the file without gaps.
  void begin_item(int64_t length);
  // The file has `end` bytes now. Asks the system to begin writing them to the disk. Throws the thread's error.
  void written(int64_t end);
  // Fsyncs and reads the rest. Returns the XXH3-64 of each item, as it was read. Call once, after the last written().
  std::vector<uint64_t> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::checkpoint
