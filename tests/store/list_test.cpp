// SPDX-License-Identifier: Apache-2.0
// Lists of more objects than one answer has, and what their XML means.
#include "s3/list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <fmt/format.h>

#include "base/object_file.h"
#include "s3_server.h"

namespace hearth::s3 {
namespace {

using testing::ElementsAre;

TEST(List, TakesKeysSizesAndFoldersAndTheTokenOfTheNext) {
  Listing listing;
  EXPECT_EQ(add_answer("<ListBucketResult><Prefix>a/</Prefix><IsTruncated>true</IsTruncated>"
                       "<NextContinuationToken>1/x=&amp;</NextContinuationToken>"
                       "<Contents><Key>a/b &amp; c</Key><ETag>&quot;1&quot;</ETag><Size>12</Size></Contents>"
                       "<Contents><Size>9223372036854775807</Size><Key>a/\xc3\xa9</Key></Contents>"
                       "<CommonPrefixes><Prefix>a/d/</Prefix></CommonPrefixes></ListBucketResult>",
                       listing),
            "1/x=&");
  ASSERT_EQ(listing.objects.size(), 2u);
  EXPECT_EQ(listing.objects[0].key, "a/b & c");
  EXPECT_EQ(listing.objects[0].bytes, 12);
  EXPECT_EQ(listing.objects[1].key, "a/\xc3\xa9");
  EXPECT_EQ(listing.objects[1].bytes, 9223372036854775807);
  EXPECT_THAT(listing.folders, ElementsAre("a/d/"));
  EXPECT_EQ(add_answer("<IsTruncated>false</IsTruncated><NextContinuationToken>1</NextContinuationToken>", listing),
            "");
  for (const char* broken : {"", "<Contents>", "<Contents></Contents>", "<Contents><Key>x"}) {
    Listing none;
    EXPECT_EQ(add_answer(broken, none), "");
    EXPECT_TRUE(none.objects.empty()) << broken;
    EXPECT_EQ(none.fault, "");
  }
  EXPECT_EQ(listing.fault, "");
}

TEST(List, ThatIsNotWholeOrHasNoSizesHasAFault) {
  for (const char* cut : {"<IsTruncated>true</IsTruncated>",
                          "<IsTruncated>true</IsTruncated><NextContinuationToken></NextContinuationToken>"}) {
    Listing listing;
    EXPECT_EQ(add_answer(cut, listing), "");
    EXPECT_THAT(listing.fault, testing::HasSubstr("without a NextContinuationToken")) << cut;
  }
  for (const char* size : {"", "x", "12x", "-1", "9223372036854775808"}) {
    Listing listing;
    add_answer(fmt::format("<Contents><Key>a/b</Key><Size>{}</Size></Contents>", size), listing);
    EXPECT_THAT(listing.fault, testing::HasSubstr(fmt::format("a/b with the Size \"{}\"", size)));
  }
}

// moto and rclone give at most so many keys an answer as they are asked for.
TEST(List, GoesOnUntilTheEnd) {
  HEARTH_NEEDS_STORE();
  const Path folder = "s3://bucket/listed";
  for (int i = 0; i < 25; ++i)
    put_new_object(folder / fmt::format("f{:02}", i), std::string(static_cast<size_t>(i), 'x'));
  put_new_object(folder / "deep" / "er", "1");
  const std::string endpoint = std::getenv("AWS_ENDPOINT_URL");
  const StoreAccess place{.endpoint = endpoint, .credentials = {"testing", "secret", "", "us-east-1"}};
  for (const bool flat : {true, false}) {
    Listing whole;
    ASSERT_TRUE(list_objects(place, "bucket", "listed/", flat, 0, whole).is_done());
    EXPECT_EQ(whole.objects.size(), flat ? 26u : 25u);
    EXPECT_EQ(whole.folders.size(), flat ? 0u : 1u);
    const size_t last = whole.objects.size() - 1;
    EXPECT_EQ(whole.objects[last].key, "listed/f24");
    EXPECT_EQ(whole.objects[last].bytes, 24);
  }
  // In portions of four.
  Listing portions;
  ASSERT_TRUE(list_objects(place, "bucket", "listed/", true, 4, portions).is_done());
  EXPECT_GE(portions.objects.size(), 4u);
  EXPECT_LT(portions.objects.size(), 26u);
  StoreCall call{
      .method = "GET", .name = "bucket", .query = {{"list-type", "2"}, {"prefix", "listed/"}, {"max-keys", "4"}}};
  Listing all;
  int answers = 0;
  for (std::string next = "first"; !next.empty() && answers < 20; ++answers) {
    Answer answer;
    ASSERT_TRUE(Connection().send(place, call, answer).is_done());
    next = add_answer(answer.body, all);
    call.query["continuation-token"] = next;
  }
  EXPECT_EQ(answers, 7);
  EXPECT_EQ(all.objects.size(), 26u);
}

}  // namespace
}  // namespace hearth::s3
