// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint's tensors. A checkpoint has one file for each rank that wrote it. A folder of NxD can have
// one for each tensor and rank, which is more than a process can have open. So only the files that were used last stay
// open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "formats/dcp.h"

namespace hearth::checkpoint {

class ItemFiles {
 public:
  static constexpr size_t kMostOpen = 16;

  explicit ItemFiles(Path folder) : folder_(std::move(folder)) {}

  // From now on, a file must contain its items (borrowed). `whole`: it has no other bytes between or behind them.
  // Throws damaged() if the items leave a gap in such a file.
  void expect(const formats::Metadata& metadata, bool whole);
  // Checks the sizes of all files with one listing of the folder, because each request to a store is slow. Throws
  // damaged().
  void check_sizes() const;
  // The file, open for reading until the next call. Throws damaged() if an expected file is missing or has another
  // size.
  const File& open(const std::string& name);

 private:
  using Items = std::vector<const formats::Item*>;  // in the order of the file
  void check_size(const std::string& name, const Items& items, int64_t size_bytes) const;
  Error missing(const std::string& name, const Items& items) const;

  struct Open {
    std::string name;
    File file;
  };
  Path folder_;
  bool whole_ = false;
  std::map<std::string, Items> items_of_;  // by file
  std::vector<Open> open_;                 // the latest first
};

}  // namespace hearth::checkpoint
