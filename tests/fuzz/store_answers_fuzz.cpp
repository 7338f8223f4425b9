// SPDX-License-Identifier: Apache-2.0
// What a store answers, as XML, and the profile of the AWS tools.
#include <algorithm>

#include "s3/answer.h"
#include "s3/list.h"
#include "s3/profile.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

using Kind = StoreResult::Kind;

void check_element(std::string_view xml, std::string_view name) {
  const std::string text = s3::element(xml, name);
  require(text.size() <= std::min<size_t>(xml.size(), 4096), "a text that is longer than its element");
  // What is written as XML is read as it was.
  const std::string again = "<" + std::string(name) + ">" + s3::escaped(text) + "</" + std::string(name) + ">";
  if (again.size() < 4096) require(s3::element(again, name) == text, "a text that changes when it is written");
}

void check_verdicts(std::string_view xml) {
  for (const long status : {200L, 301L, 400L, 403L, 404L, 409L, 412L, 429L, 500L, 501L, 503L}) {
    const s3::AnswerMeaning verdict = s3::verdict_of(status, xml);
    require(verdict.code.size() <= 100, "a code without a limit");
    require(verdict.result.is_done() == verdict.result.why.empty(), "an error without a reason");
    require(!verdict.result.is_done() || status == 200, "an error of HTTP that counts as done");
    require(!verdict.try_again || verdict.result.kind == Kind::kUnreachable, "a final error that is tried again");
  }
}

void check_profile(std::string_view text) {
  for (const char* profile : {"default", "mine", "", "profile"}) {
    for (const char* key : {"endpoint_url", "max_attempts", ""}) {
      const std::string value = s3::profile_value(text, profile, key);
      require(value.find('\n') == std::string::npos, "a value of two lines");
      require(text.find(value) != std::string_view::npos, "a value that the file does not have");
      // A section that comes first counts. It must not be nested in what stands before it.
      if (*key == '\0' || *profile == '\0') continue;
      const std::string before = std::string("[profile ") + profile + "]\n" + key + " = first\n";
      require(s3::profile_value(before + std::string(text), profile, key) == "first", "a key that is not found");
    }
  }
}

void check_list(std::string_view xml) {
  s3::Listing listing;
  s3::add_answer(xml, listing);
  size_t bytes = 0;
  for (const s3::ListedObject& object : listing.objects) bytes += object.key.size();
  for (const std::string& folder : listing.folders) bytes += folder.size();
  require(bytes <= xml.size(), "names that the answer does not have");
}

}  // namespace

void run(std::string_view input) {
  for (const char* name : {"Code", "UploadId", "ETag"}) check_element(input, name);
  check_verdicts(input);
  check_profile(input);
  check_list(input);
}

std::vector<std::string> seeds() {
  return {
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code><Message>The key &quot;a&#x26;b&quot; "
      "is "
      "not there.</Message><Resource>/bucket/a</Resource><RequestId>4442587FB7D0A2F9</RequestId></Error>",
      "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>b</Bucket><Key>k</Key>"
      "<UploadId>VXBsb2FkIElE&#45;a+b/c=</UploadId></InitiateMultipartUploadResult>",
      "  \n<CompleteMultipartUploadResult><Location/><ETag>&#34;3858f62230ac3c915f300c664312c11f-9&#34;</ETag>"
      "</CompleteMultipartUploadResult>",
      "<Error><Code>InternalError</Code></Error>",
      "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>1/x=&amp;</NextContinuationToken>"
      "<Contents><Key>a/b &amp; c</Key><Size>12</Size></Contents><Contents><Size>3</Size><Key>a/d</Key></Contents>"
      "<CommonPrefixes><Prefix>a/e/</Prefix></CommonPrefixes></ListBucketResult>",
      "# comment\n[default]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:1\nmax_attempts=5\ns3 =\n  "
      "max_concurrent = 4"
      "\n  endpoint_url = nested\n\n[profile mine]\r\nendpoint_url=https://store.example:9000\r\n[mine ]\n; end\n"};
}

}  // namespace hearth::fuzz
