// SPDX-License-Identifier: Apache-2.0
#include "s3/list.h"

#include <charconv>

#include "s3/answer.h"

namespace hearth::s3 {

std::string add_answer(std::string_view xml, Listing& listing) {
  for (const std::string_view one : insides(xml, "Contents")) {
    ListedObject object{.key = element(one, "Key")};
    const std::string size = element(one, "Size");
    std::from_chars(size.data(), size.data() + size.size(), object.bytes);
    if (!object.key.empty()) listing.objects.push_back(std::move(object));
  }
  for (const std::string_view one : insides(xml, "CommonPrefixes"))
    if (std::string folder = element(one, "Prefix"); !folder.empty()) listing.folders.push_back(std::move(folder));
  return element(xml, "IsTruncated") == "true" ? element(xml, "NextContinuationToken") : "";
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
    if (next.empty() || (most > 0 && found >= most)) return {};
    if (next == before) return {StoreResult::Kind::kRefused, "the store's list has no end"};
    call.query["continuation-token"] = before = next;
  }
}

}  // namespace hearth::s3
