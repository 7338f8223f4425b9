// SPDX-License-Identifier: Apache-2.0
#include "s3/request.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "base/quantity.h"
#include "s3/answer.h"

namespace hearth::s3 {
namespace {

using Kind = StoreResult::Kind;

constexpr int64_t kMostDelayMs = 20'000;

// Twice as long each time, and not at the same moment as other ranks.
void wait_before(int64_t attempt, const std::atomic<bool>* stop) {
  thread_local std::minstd_rand random(std::random_device{}());
  const int64_t most = std::min(kMostDelayMs, int64_t{100} << std::min<int64_t>(attempt, 8));
  int64_t left_ms = std::uniform_int_distribution<int64_t>(most / 2, most)(random);
  for (; left_ms > 0 && (stop == nullptr || !*stop); left_ms -= 100)
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int64_t>(left_ms, 100)));
}

Request request_of(const StoreAccess& place, const StoreCall& call, std::string& url) {
  const size_t slash = std::min(call.name.find('/'), call.name.size()), host = place.endpoint.find("://") + 3;
  const std::string bucket = call.name.substr(0, slash);
  const std::string key = slash < call.name.size() ? call.name.substr(slash + 1) : "";
  const std::string authority = (place.is_virtual ? bucket + "." : "") + place.endpoint.substr(host);
  Request request{.method = call.method,
                  .path = "/" + percent_encoded(place.is_virtual ? key : call.name, true),
                  .query = {},
                  .headers = call.headers,
                  .body = call.body};
  for (const auto& [name, value] : call.query)
    request.query += (request.query.empty() ? "" : "&") + name + "=" + percent_encoded(value, false);
  request.headers["host"] = authority;
  url = place.endpoint.substr(0, host) + authority + request.path + (request.query.empty() ? "" : "?" + request.query);
  return request;
}

}  // namespace

StoreResult Connection::send(const StoreAccess& place, const StoreCall& call, Answer& answer,
                             const std::atomic<bool>* stop) {
  if (!place.credentials.are_there() && !place.no_credentials.is_done()) return place.no_credentials;
  const bool is_bucket = call.name.find('/') == std::string::npos;
  if (is_bucket && call.method != "GET" && call.method != "HEAD") return {Kind::kRefused, "a bucket is no object"};
  std::string url;
  const Request unsigned_request = request_of(place, call, url);
  StoreResult result;
  for (answer.tries = 0; answer.tries < place.attempts; ++answer.tries) {
    if (answer.tries > 0) wait_before(answer.tries, stop);
    if (stop != nullptr && *stop) return {Kind::kUnreachable, kStopped};
    Request request = unsigned_request;
    if (place.credentials.are_there()) sign(request, place.credentials, utc_now("%Y%m%dT%H%M%SZ"));
    http_.send({.method = request.method,
                .url = url,
                .headers = request.headers,
                .body = request.body,
                .into = call.into,
                .connect_timeout_s = place.connect_timeout_s,
                .request_timeout_s = place.request_timeout_s},
               answer);
    if (!answer.failure.empty()) {
      result = {answer.is_final ? Kind::kRefused : Kind::kUnreachable, answer.failure};
      if (answer.is_final) return result;
      continue;
    }
    AnswerMeaning verdict = verdict_of(answer.status, answer.body);
    answer.code = verdict.code;
    result = std::move(verdict.result);
    if (result.is_done() && !call.into.empty() && answer.received_bytes != std::ssize(call.into)) {
      result = {Kind::kUnreachable, "the store sent fewer bytes than it has"};
      continue;
    }
    const auto region = answer.headers.find("x-amz-bucket-region");
    if ((answer.status == 301 || answer.status == 307) && region != answer.headers.end())
      result.why += ": the bucket is in " + region->second + ": set AWS_REGION";
    if (result.kind == Kind::kRefused && !place.credentials.are_there() && !place.no_credentials.why.empty())
      result.why += "; " + place.no_credentials.why;
    if (!verdict.try_again) return result;
  }
  return result;
}

// Sends `call` with the condition. kThere: it does not hold.
StoreResult send_if(const StoreAccess& place, StoreCall call, const Precondition& condition, Answer& answer) {
  Connection connection;
  call.headers.insert(condition.etag.empty() ? std::pair("if-none-match", "*")
                                             : std::pair("if-match", condition.etag.c_str()));
  StoreResult result = connection.send(place, call, answer);
  if (answer.status == 412) result.kind = Kind::kThere;
  const bool is_unknown = answer.status == 501 || answer.code == "NotImplemented" || answer.code == "InvalidArgument";
  if (result.is_done() || !is_unknown) return result;
  call.headers.erase("if-none-match");
  call.headers.erase("if-match");
  return connection.send(place, call, answer);
}

StoreResult find_ours(const StoreAccess& place, const std::string& name, int64_t bytes, const StoreResult& otherwise) {
  Answer there;
  StoreResult found = Connection().send(place, {.method = "HEAD", .name = name}, there);
  if (found.kind == Kind::kUnreachable) return found;
  return found.is_done() && there.headers["content-length"] == std::to_string(bytes) ? StoreResult{} : otherwise;
}

StoreResult get_range(Connection& connection, const StoreAccess& place, const std::string& name, int64_t offset,
                      std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  Answer answer;
  const std::string range = std::to_string(offset) + "-" + std::to_string(offset + std::ssize(bytes) - 1);
  StoreResult result = connection.send(
      place, {.method = "GET", .name = name, .headers = {{"range", "bytes=" + range}}, .into = bytes}, answer, &stop);
  // A store that takes no ranges sends more bytes, which send() refuses. rclone sends a range with the status 200.
  const auto sent = answer.headers.find("content-range");
  if (result.is_done() && sent != answer.headers.end() && !sent->second.starts_with("bytes " + range + "/"))
    return {Kind::kRefused, "the store sends another range than the one that was asked for: " + sent->second};
  return result;
}

StoreResult put(const StoreAccess& place, const std::string& name, std::string_view content,
                const Precondition& condition) {
  Answer answer;
  return send_if(
      place,
      {.method = "PUT", .name = name, .headers = {{"content-type", "application/octet-stream"}}, .body = content},
      condition, answer);
}

StoreResult remove(const StoreAccess& place, const std::string& name) {
  Answer answer;
  const StoreResult result = Connection().send(place, {.method = "DELETE", .name = name}, answer);
  return result.kind == Kind::kMissing && answer.code != "NoSuchBucket" ? StoreResult{} : result;
}

StoreResult begin_upload(const StoreAccess& place, const std::string& name, std::string& upload) {
  Answer answer;
  StoreResult result = Connection().send(place,
                                         {.method = "POST",
                                          .name = name,
                                          .query = {{"uploads", ""}},
                                          .headers = {{"content-type", "application/octet-stream"}}},
                                         answer);
  if (!result.is_done()) return result;
  upload = element(answer.body, "UploadId");
  if (upload.empty()) return {Kind::kRefused, "the store answers without an UploadId"};
  return {};
}

StoreResult put_part(Connection& connection, const StoreAccess& place, const std::string& name,
                     const std::string& upload, int64_t number, std::string_view content, std::string& tag,
                     const std::atomic<bool>& stop) {
  Answer answer;
  StoreResult result = connection.send(place,
                                       {.method = "PUT",
                                        .name = name,
                                        .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload}},
                                        .body = content},
                                       answer, &stop);
  if (!result.is_done()) return result;
  tag = answer.headers["etag"];
  if (tag.empty()) return {Kind::kRefused, "the store answers without the ETag of a part"};
  return {};
}

StoreResult complete_upload(const StoreAccess& place, const std::string& name, const std::string& upload,
                            const std::vector<std::string>& tags, int64_t bytes, const Precondition& condition) {
  std::string body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < tags.size(); ++i)
    body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + escaped(tags[i]) + "</ETag></Part>";
  body += "</CompleteMultipartUpload>";
  Answer answer;
  StoreResult result =
      send_if(place, {.method = "POST", .name = name, .query = {{"uploadId", upload}}, .headers = {}, .body = body},
              condition, answer);
  if (result.kind == Kind::kThere) return find_ours(place, name, bytes, result);
  // The answer of a try before was lost.
  if (answer.code == "NoSuchUpload")
    return find_ours(place, name, bytes, {Kind::kUnreachable, "the store has forgotten the upload"});
  return result;
}

StoreResult abort_upload(const StoreAccess& place, const std::string& name, const std::string& upload) {
  Answer answer;
  return Connection().send(place, {.method = "DELETE", .name = name, .query = {{"uploadId", upload}}}, answer);
}

}  // namespace hearth::s3
