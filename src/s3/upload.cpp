// SPDX-License-Identifier: Apache-2.0
#include "s3/upload.h"

#include <algorithm>
#include <utility>

namespace hearth::s3 {
namespace {

using Kind = StoreResult::Kind;

constexpr int64_t kMostPartsAtOnce = 8;
constexpr int64_t kMostBytesAtOnce = int64_t{256} << 20;  // but at least two parts
constexpr int64_t kMostAttemptsToTakeBack = 3;

}  // namespace

int64_t PartSizes::bytes_of(int64_t number) const {
  if (number <= equal_parts) return first_bytes;
  const int64_t doublings = 1 + (number - equal_parts - 1) / parts_between_doublings;
  int64_t bytes = first_bytes;
  for (int64_t i = 0; i < doublings && bytes < kMostBytes; ++i) bytes *= 2;
  return std::min(bytes, kMostBytes);
}

Upload::Upload(std::function<StoreAccess()> place, std::string name, Precondition condition, PartSizes sizes)
    : place_(std::move(place)), name_(std::move(name)), condition_(std::move(condition)), sizes_(sizes) {}

Upload::~Upload() { take_back(); }

StoreResult Upload::write(std::span<const std::byte> bytes) {
  if (!failure_.is_done()) return failure_;
  bytes_ += std::ssize(bytes);
  while (!bytes.empty()) {
    const auto size = static_cast<size_t>(sizes_.bytes_of(part_.number));
    if (part_.content.size() == size) {
      if (StoreResult result = send_part(); !result.is_done()) return fail(std::move(result));
      continue;
    }
    const auto now = bytes.first(std::min(bytes.size(), size - part_.content.size()));
    part_.content.append(reinterpret_cast<const char*>(now.data()), now.size());
    bytes = bytes.subspan(now.size());
  }
  return {};
}

StoreResult Upload::finish() {
  if (!failure_.is_done()) return failure_;
  if (upload_.empty()) {
    const StoreResult result = put(place_(), name_, part_.content, condition_);
    return result.kind == Kind::kThere ? find_ours(place_(), name_, bytes_, result) : result;
  }
  StoreResult result = send_part();
  while (result.is_done() && done_parts_ < sent_.size()) result = wait_for_oldest();
  if (!result.is_done()) return fail(std::move(result));
  std::vector<std::string> tags;
  for (const Sent& sent : sent_) tags.push_back(*sent.tag);
  result = complete_upload(place_(), name_, upload_, tags, bytes_, condition_);
  if (!result.is_done()) return fail(std::move(result));
  upload_.clear();
  return {};
}

StoreResult Upload::send_part() {
  if (part_.number > PartSizes::kMostParts) return {Kind::kRefused, "the object is larger than a store takes"};
  if (upload_.empty())
    if (StoreResult result = begin_upload(place_(), name_, upload_); !result.is_done()) return result;
  const int64_t at_once =
      std::clamp<int64_t>(kMostBytesAtOnce / std::max<int64_t>(1, std::ssize(part_.content)), 2, kMostPartsAtOnce);
  while (std::ssize(sent_) - static_cast<int64_t>(done_parts_) >= at_once)
    if (StoreResult result = wait_for_oldest(); !result.is_done()) return result;
  const int64_t next = part_.number + 1;
  Sent sent{{}, std::make_unique<std::string>()};
  sent.result = std::async(std::launch::async,
                           [this, part = std::move(part_), tag = sent.tag.get()] { return send(part, *tag); });
  sent_.push_back(std::move(sent));
  part_ = {next, {}};
  return {};
}

StoreResult Upload::send(const Part& part, std::string& tag) {
  std::unique_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (!connections_.empty()) {
      connection = std::move(connections_.back());
      connections_.pop_back();
    }
  }
  if (connection == nullptr) connection = std::make_unique<Connection>();
  StoreResult result = put_part(*connection, place_(), name_, upload_, part.number, part.content, tag, stop_);
  const std::lock_guard lock(mutex_);
  connections_.push_back(std::move(connection));
  return result;
}

StoreResult Upload::wait_for_oldest() { return sent_[done_parts_++].result.get(); }

StoreResult Upload::fail(StoreResult result) {
  failure_ = std::move(result);
  take_back();
  return failure_;
}

void Upload::take_back() {
  stop_ = true;
  while (done_parts_ < sent_.size()) static_cast<void>(wait_for_oldest());
  if (upload_.empty()) return;
  StoreAccess place = place_();
  place.attempts = std::min(place.attempts, kMostAttemptsToTakeBack);
  static_cast<void>(abort_upload(place, name_, upload_));
  upload_.clear();
}

}  // namespace hearth::s3
