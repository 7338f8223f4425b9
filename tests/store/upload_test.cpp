// SPDX-License-Identifier: Apache-2.0
// Objects of many parts, with parts so small that few bytes are enough.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/random.h"
#include "s3/answer.h"
#include "s3/upload.h"
#include "s3_server.h"

namespace hearth::s3 {
namespace {

using test::S3Server;
using testing::HasSubstr;
using Kind = StoreResult::Kind;

StoreAccess place_of_tests() {
  return {.endpoint = std::getenv("AWS_ENDPOINT_URL"),
          .credentials = {"testing", "secret", "", "us-east-1"},
          .attempts = 2,
          .request_timeout_s = 600};
}

// For a request that the server never answers: it is given up after a second. A busy machine may answer the next one as
// late, so there are more attempts.
StoreAccess place_that_hangs() {
  StoreAccess place = place_of_tests();
  place.attempts = 6;
  place.request_timeout_s = 1;
  return place;
}

std::string noise(size_t size, std::string_view name) {
  std::string text(size, '\0');
  const RandomKey key = random_key(5, name);
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(random_u64(key, i));
  return text;
}

StoreResult upload(const std::string& name, std::string_view content, PartSizes sizes, size_t at_a_time = 1000,
                   StoreAccess (*place)() = place_of_tests) {
  Upload upload(place, "bucket/" + name, {}, sizes);
  while (!content.empty()) {
    const StoreResult result = upload.write(std::as_bytes(std::span(content.substr(0, at_a_time))));
    if (!result.is_done()) return result;
    content.remove_prefix(std::min(content.size(), at_a_time));
  }
  return upload.finish();
}

// The lines of the proxy's log that hold a text.
std::vector<std::string> requests_with(const std::string& text) {
  std::vector<std::string> found;
  for (std::string& line : S3Server::get().take_log())
    if (line.find(text) != std::string::npos) found.push_back(std::move(line));
  return found;
}

// The store's own list of uploads that have begun.
bool is_unfinished(const std::string& key) {
  Answer answer;
  const StoreResult result =
      Connection().send(place_of_tests(), {.method = "GET", .name = "bucket/", .query = {{"uploads", ""}}}, answer);
  EXPECT_TRUE(result.is_done()) << result.why;
  return answer.body.find("<Key>" + key + "</Key>") != std::string::npos;
}

// S3's limits: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
TEST(PartSizes, ReachTheLargestObjectWithinTheLimitsOfAStore) {
  const PartSizes sizes;
  int64_t sum = 0, before = 0;
  for (int64_t number = 1; number <= 10'000; ++number) {
    const int64_t bytes = sizes.bytes_of(number);
    ASSERT_GE(bytes, std::max(before, int64_t{5} << 20)) << number;
    ASSERT_LE(bytes, int64_t{5} << 30) << number;
    if (number > 5000) {
      ASSERT_LE(bytes, sum / 500) << number;  // memory for some of them is small beside the object
    }
    sum += bytes;
    before = bytes;
    if (number == 5000) {
      EXPECT_EQ(sum, 5000 * (int64_t{10} << 20));  // equal ones
    }
  }
  EXPECT_GE(sum, int64_t{5} << 40);
}

// The store takes ten parts here. Without growth there would be 32.
TEST(Upload, PartsGrowSoThatALargeObjectHasFewEnough) {
  HEARTH_NEEDS_STORE();
  const PartSizes sizes{.first_bytes = 8000, .equal_parts = 4, .parts_between_doublings = 2};
  const std::string content = noise(250'001, "growth");
  S3Server::get().set_faults("PUT partNumber=1[1-9] 1 999 400");
  S3Server::get().take_log();
  const StoreResult result = upload("parts.bin", content, sizes);
  EXPECT_TRUE(result.is_done()) << result.why;
  EXPECT_EQ(requests_with("partNumber").size(), 10);  // 4 of 8000, 2 of 16000, 2 of 32000, 64000, the rest
  EXPECT_TRUE(S3Server::get().content("parts.bin") == content);
}

TEST(Upload, EndsAtEverySizeAroundAPart) {
  HEARTH_NEEDS_STORE();
  for (const size_t size : {0, 1, 999, 1000, 1001, 1999, 2000, 2001, 12'345}) {
    for (const size_t at_a_time : {size_t{1}, size_t{700}, size_t{5000}}) {
      if (at_a_time == 1 && size > 2001) continue;
      const std::string content = noise(size, "sizes");
      const std::string name = fmt::format("sizes-{}-{}.bin", size, at_a_time);
      const StoreResult result = upload(name, content, {.first_bytes = 1000}, at_a_time);
      ASSERT_TRUE(result.is_done()) << size << " " << result.why;
      ASSERT_EQ(S3Server::get().content(name), content) << size << " " << at_a_time;
    }
  }
}

TEST(Upload, ThatFailsIsTakenBackAndWasNeverSeen) {
  HEARTH_NEEDS_STORE();
  S3Server& server = S3Server::get();
  for (const std::string fault : {"PUT partNumber=3 1 99 500", "PUT partNumber=1& 1 99 reset", "POST uploadId 1 99 500",
                                  "POST uploadId 1 99 400"}) {
    server.set_faults(fault);
    server.take_log();
    const StoreResult result = upload("failed.bin", noise(10'000, "failed"), {.first_bytes = 2000});
    EXPECT_FALSE(result.is_done()) << fault;
    EXPECT_EQ(result.kind, fault.ends_with("400") ? Kind::kRefused : Kind::kUnreachable) << result.why;
    EXPECT_EQ(requests_with("DELETE /bucket/failed.bin?uploadId=").size(), 1) << fault;
    EXPECT_FALSE(is_unfinished("failed.bin")) << fault;
    EXPECT_EQ(server.content("failed.bin"), std::nullopt) << fault;
  }
  // Not one request more, once it has failed.
  server.set_faults("POST uploads 1 99 503");
  server.take_log();
  EXPECT_EQ(upload("failed.bin", noise(10'000, "failed"), {.first_bytes = 2000}).kind, Kind::kUnreachable);
  EXPECT_EQ(server.take_log().size(), 2);
}

TEST(Upload, ThatIsLeftUnfinishedIsTakenBack) {
  HEARTH_NEEDS_STORE();
  S3Server::get().take_log();
  {
    const std::string content = noise(10'000, "left");
    Upload upload(place_of_tests, "bucket/left.bin", {}, {.first_bytes = 2000});
    EXPECT_TRUE(upload.write(std::as_bytes(std::span(std::string_view(content)))).is_done());
    EXPECT_TRUE(is_unfinished("left.bin"));
  }
  EXPECT_EQ(requests_with("DELETE /bucket/left.bin?uploadId=").size(), 1);
  EXPECT_FALSE(is_unfinished("left.bin"));
  EXPECT_EQ(S3Server::get().content("left.bin"), std::nullopt);
}

TEST(Upload, FaultsOfAMomentAreBridged) {
  HEARTH_NEEDS_STORE();
  const std::string content = noise(10'000, "bridged");
  for (const char* action : {"500", "503", "reset", "cut", "lost", "hang"}) {
    for (const char* request : {"POST uploads", "PUT partNumber=2", "POST uploadId"}) {
      const bool hangs = std::string(action) == "hang";
      if (hangs && request[1] == 'O') continue;  // seconds each
      S3Server::get().set_faults(fmt::format("{} 1 1 {}", request, action));
      const StoreResult result =
          upload("moment.bin", content, {.first_bytes = 2000}, 1000, hangs ? place_that_hangs : place_of_tests);
      EXPECT_TRUE(result.is_done()) << action << " " << request << ": " << result.why;
      EXPECT_TRUE(S3Server::get().content("moment.bin") == content) << action << " " << request;
      EXPECT_TRUE(remove(place_of_tests(), "bucket/moment.bin").is_done());
    }
  }
}

// In one request and in parts: an object is new, or replaces just the content that the caller has seen.
TEST(Upload, ReplacesOnlyWhatItsConditionNames) {
  HEARTH_NEEDS_STORE();
  for (const int64_t first_bytes : {int64_t{100'000}, int64_t{2000}}) {
    const std::string key = fmt::format("condition-{}.bin", first_bytes), name = "bucket/" + key;
    const auto write = [&](const std::string& content, const std::string& etag) {
      Upload upload(place_of_tests, name, {etag}, {.first_bytes = first_bytes});
      const StoreResult result = upload.write(std::as_bytes(std::span(std::string_view(content))));
      return result.is_done() ? upload.finish() : result;
    };
    const std::string first = noise(10'000, "first"), second = noise(12'000, "second");
    ASSERT_TRUE(write(first, "").is_done());
    EXPECT_EQ(write(second, "").kind, Kind::kThere);
    EXPECT_EQ(S3Server::get().content(key), first);
    Answer answer;
    ASSERT_TRUE(Connection().send(place_of_tests(), {.method = "HEAD", .name = name}, answer).is_done());
    if (first_bytes > 10'000) {  // neither server knows If-Match for parts
      EXPECT_EQ(write(second, "\"0123456789abcdef0123456789abcdef\"").kind, Kind::kThere);
      EXPECT_EQ(S3Server::get().content(key), first);
    }
    EXPECT_TRUE(write(second, answer.headers["etag"]).is_done());
    EXPECT_EQ(S3Server::get().content(key), second);
  }
}

TEST(Answer, GivesTheTextOfAnElement) {
  EXPECT_EQ(element("<a><UploadIdx>1</UploadIdx><UploadId x=\"y\">2&amp;3&#x41;&#66;&no;&</UploadId></a>", "UploadId"),
            "2&3AB&no;&");
  for (const char* xml : {"", "<", "<UploadId", "<UploadId>", "<UploadId/>", "<UploadId>1", "UploadId>1<"})
    EXPECT_EQ(element(xml, "UploadId"), "") << xml;
}

TEST(Answer, SaysWhetherAnotherTryMayHelp) {
  const auto error = [](const char* code) { return fmt::format("<?xml?>\n<Error><Code>{}</Code></Error>", code); };
  EXPECT_TRUE(verdict_of(200, "<CompleteMultipartUploadResult/>").result.is_done());
  EXPECT_EQ(verdict_of(200, error("InternalError")).result.kind, Kind::kUnreachable);  // Amazon does that
  EXPECT_EQ(verdict_of(200, error("InvalidPart")).result.kind, Kind::kRefused);
  EXPECT_TRUE(verdict_of(400, error("RequestTimeout")).try_again);
  EXPECT_TRUE(verdict_of(400, error("XAmzContentSHA256Mismatch")).try_again);
  EXPECT_FALSE(verdict_of(400, error("EntityTooSmall")).try_again);
  EXPECT_FALSE(verdict_of(501, "").try_again);
  EXPECT_TRUE(verdict_of(503, "").try_again);
  EXPECT_EQ(verdict_of(404, error("NoSuchUpload")).result.kind, Kind::kMissing);
  EXPECT_THAT(verdict_of(403, error("AccessDenied")).result.why, HasSubstr("403 AccessDenied"));
}

}  // namespace
}  // namespace hearth::s3
