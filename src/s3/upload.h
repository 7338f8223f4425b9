// SPDX-License-Identifier: Apache-2.0
// An object that is written from begin to end, of any size: in one request, or in parts that are sent side by side.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/object_store.h"
#include "s3/request.h"

namespace hearth::s3 {

// S3 takes 10,000 parts of 5 MiB to 5 GiB; the last one may be smaller:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
// The size of an object is not known before its end. The first parts are therefore small and equal, which some stores
// want, and later ones double: the first 5,000 hold 48.8 GiB, all of them 7.3 TiB.
struct PartSizes {
  int64_t first_bytes = int64_t{10} << 20;
  int64_t equal_parts = 5000, parts_between_doublings = 500;

  static constexpr int64_t kMostParts = 10'000;
  static constexpr int64_t kMostBytes = int64_t{5} << 30;

  // The size of a part that is not the last. `number` begins at 1.
  int64_t bytes_of(int64_t number) const;
};

// A failed or unfinished upload is aborted. Not thread-safe.
class Upload final : public ObjectWriter {
 public:
  // `place` is called for every request, because credentials may change meanwhile. It is called by several threads.
  Upload(std::function<StoreAccess()> place, std::string name, Precondition condition = {}, PartSizes sizes = {});
  ~Upload() override;
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  StoreResult write(std::span<const std::byte> bytes) override;
  StoreResult finish() override;

 private:
  struct Part {
    int64_t number = 0;
    std::string content;
  };
  StoreResult send_part();  // begins to send part_
  StoreResult wait_for_oldest();
  StoreResult fail(StoreResult result);
  StoreResult send(const Part& part, std::string& tag);
  void take_back();

  const std::function<StoreAccess()> place_;
  const std::string name_;
  const Precondition condition_;
  const PartSizes sizes_;
  Part part_{1, {}};
  int64_t bytes_ = 0;
  std::string upload_;  // empty: nothing was sent yet
  StoreResult failure_;
  struct Sent {
    std::future<StoreResult> result;
    std::unique_ptr<std::string> tag;
  };
  std::vector<Sent> sent_;  // by number
  size_t done_parts_ = 0;   // how many parts at the beginning of sent_ are done
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards the connections that no part uses
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace hearth::s3
