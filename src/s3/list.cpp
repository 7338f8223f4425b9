// SPDX-License-Identifier: Apache-2.0
#include "s3/list.h"

#include <charconv>

#include "s3/answer.h"

namespace hearth::s3 {

std::string add_answer(std::string_view xml, Listing& listing) {
  for (const std::string_view one : insides(xml, "Contents")) {
    ListedObject object{.key = element(one, "Key")};
    const std::string size = element(one, "Size");
    if (object.key.empty()) continue;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), object.bytes);
    if (error != std::errc() || end != size.data() + size.size() || object.bytes < 0)
      listing.fault = "the store's list has " + object.key + " with the Size \"" + size + "\", which is no size";
    listing.objects.push_back(std::move(object));
  }
  for (const std::string_view one : insides(xml, "CommonPrefixes"))
    if (std::string folder = element(one, "Prefix"); !folder.empty()) listing.folders.push_back(std::move(folder));
  if (element(xml, "IsTruncated") != "true") return {};
  std::string next = element(xml, "NextContinuationToken");
  if (next.empty())
    listing.fault =
        "the store's list answers IsTruncated = true without a NextContinuationToken: its rest cannot be read";
  return next;
}

StoreResult list_objects(const StoreAccess& place, const std::string& bucket, const std::string& prefix, bool flat,
                         int64_t most, Listing& listing) {
  Connection connection;
  StoreCall call{.method = "GET", .name = bucket, .query = {{"list-type", "2"}, {"prefix", prefix}}};
  if (!flat) call.query["delimiter"] = "/";
  if (most > 0) call.query["max-keys"] = std::to_string(most);
  for (std::string before;;) {
    Answer answer;
    StoreResult result = connection.send(place, call, answer);
    if (!result.is_done()) return result;
    const std::string next = add_answer(answer.body, listing);
    const int64_t found = std::ssize(listing.objects) + std::ssize(listing.folders);
    if (most > 0 && found >= most) return {};
    if (!listing.fault.empty()) return {StoreResult::Kind::kRefused, listing.fault};
    if (next.empty()) return {};
    if (next == before) return {StoreResult::Kind::kRefused, "the store's list has no end"};
    call.query["continuation-token"] = before = next;
  }
}

}  // namespace hearth::s3
