// SPDX-License-Identifier: Apache-2.0
// Signatures, compared with botocore's.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "checkpoint/example.h"
#include "s3/signature.h"
#include "s3_server.h"

namespace hearth::s3 {
namespace {

constexpr const char* kScript = R"(
import datetime, json, sys
import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
at = datetime.datetime(2026, 1, 31, 23, 59, 59, tzinfo=datetime.timezone.utc)
botocore.auth.get_current_datetime = lambda remove_tzinfo=True: at.replace(tzinfo=None) if remove_tzinfo else at
for line in open(sys.argv[1]):
    r = json.loads(line)
    query = "?" + r["query"] if r["query"] else ""
    request = AWSRequest(r["method"], "http://host.example:9000" + r["path"] + query, r["headers"], bytes.fromhex(r["body"]))
    credentials = Credentials("AKID", "se/cr+et", r["token"] or None)
    botocore.auth.S3SigV4Auth(credentials, "s3", "eu-west-1").add_auth(request)
    print(request.headers["Authorization"])
)";

TEST(Signature, IsBotocores) {
  HEARTH_NEEDS_STORE();
  std::vector<Request> requests;
  requests.push_back({.method = "DELETE", .path = "/bucket/key", .query = {}, .headers = {}, .body = {}});
  requests.push_back({.method = "PUT",
                      .path = "/bucket/" + percent_encoded("a folder/x+y=\xc3\xa9~*'()!@:%25&;.bin", true),
                      .query = {},
                      .headers = {{"if-none-match", "*"}, {"content-type", "application/octet-stream"}},
                      .body = "content"});
  requests.push_back({.method = "POST", .path = "/bucket/key", .query = "uploads=", .headers = {}, .body = {}});
  requests.push_back({.method = "PUT",
                      .path = "/bucket/key",
                      .query = "partNumber=12&uploadId=" + percent_encoded("a/b+c=d e&f~_.-", false),
                      .headers = {},
                      .body = std::string_view("\0\xff\n", 3)});
  const test::ScratchFolder scratch;
  std::string lines, ours;
  for (const std::string token : {"", "session+token/="}) {
    for (Request request : requests) {
      std::string hex;
      for (const char c : request.body) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
      lines += nlohmann::json{{"method", request.method},   {"path", request.path}, {"query", request.query},
                              {"headers", request.headers}, {"body", hex},          {"token", token}}
                   .dump() +
               "\n";
      request.headers["host"] = "host.example:9000";
      sign(request, {"AKID", "se/cr+et", token, "eu-west-1"}, "20260131T235959Z");
      ours += request.headers["authorization"] + "\n";
    }
  }
  test::write_text(scratch / "requests", lines);
  EXPECT_EQ(ours, checkpoint::run_python(scratch, kScript, (scratch / "requests").string()));
}

}  // namespace
}  // namespace hearth::s3
