// SPDX-License-Identifier: Apache-2.0
#include "s3/request.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
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

size_t append(const char* bytes, size_t size, size_t count, void* text) {
  static_cast<std::string*>(text)->append(bytes, size * count);
  return size * count;
}

size_t add_header(const char* bytes, size_t size, size_t count, void* headers) {
  const std::string_view line(bytes, size * count);
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    while (!value.empty() && std::string_view(" \r\n").find(value.back()) != std::string_view::npos)
      value.remove_suffix(1);
    static_cast<std::map<std::string, std::string>*>(headers)->insert_or_assign(name, std::string(value));
  }
  return size * count;
}

// When the last byte came or went. curl's own limit (CURLOPT_LOW_SPEED_TIME) looks at the mean of five seconds, and so
// takes five seconds more.
struct Watch {
  using Clock = std::chrono::steady_clock;
  const std::chrono::seconds most;
  bool is_connected = false;  // before that, CURLOPT_CONNECTTIMEOUT counts
  curl_off_t bytes = 0;
  Clock::time_point moved = {};
};

int begin_watch(void* of_request, char* /*their_address*/, char* /*our_address*/, int /*their_port*/,
                int /*our_port*/) {
  Watch& seen = *static_cast<Watch*>(of_request);
  seen.is_connected = true;
  seen.moved = Watch::Clock::now();
  return CURL_PREREQFUNC_OK;
}

// curl calls it about once a second, and when bytes move. Another result than 0 ends the request.
int watch(void* of_request, curl_off_t /*down_all*/, curl_off_t down, curl_off_t /*up_all*/, curl_off_t up) {
  Watch& seen = *static_cast<Watch*>(of_request);
  const auto now = Watch::Clock::now();
  if (down + up != seen.bytes) {
    seen.bytes = down + up;
    seen.moved = now;
  }
  return seen.is_connected && now - seen.moved > seen.most ? 1 : 0;
}

// Twice as long each time, and not at the same moment as other ranks.
void wait_before(int64_t attempt, const std::atomic<bool>* stop) {
  thread_local std::minstd_rand random(std::random_device{}());
  const int64_t most = std::min(kMostDelayMs, int64_t{100} << std::min<int64_t>(attempt, 8));
  int64_t left_ms = std::uniform_int_distribution<int64_t>(most / 2, most)(random);
  for (; left_ms > 0 && (stop == nullptr || !*stop); left_ms -= 100)
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int64_t>(left_ms, 100)));
}

// Errors of curl that stay the same at another try.
bool is_final(CURLcode code) {
  return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_PEER_FAILED_VERIFICATION ||
         code == CURLE_SSL_CACERT_BADFILE;
}

Request request_of(const StoreAccess& place, const StoreCall& call, std::string& url) {
  const size_t slash = call.name.find('/'), host = place.endpoint.find("://") + 3;
  const std::string bucket = call.name.substr(0, slash), key = call.name.substr(slash + 1);
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

// Returns what curl says: empty if there was an answer.
std::string send_once(CURL* curl, const StoreAccess& place, const std::string& url, const Request& request,
                      Answer& answer, CURLcode& code) {
  curl_slist* list = nullptr;
  for (const auto& [name, value] : request.headers) list = curl_slist_append(list, (name + ": " + value).c_str());
  list = curl_slist_append(list, "Expect:");
  if (!request.headers.contains("content-type")) list = curl_slist_append(list, "Content-Type:");
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, &curl_slist_free_all);
  answer.status = 0;
  answer.body.clear();
  answer.headers.clear();
  curl_easy_reset(curl);  // of options: the connection stays open
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, add_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer.headers);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(place.connect_timeout_s));
  Watch seen{std::chrono::seconds(place.request_timeout_s)};
  curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, begin_watch);
  curl_easy_setopt(curl, CURLOPT_PREREQDATA, &seen);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &seen);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  std::array<char, CURL_ERROR_SIZE> why{};
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why.data());
  code = curl_easy_perform(curl);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  if (code == CURLE_ABORTED_BY_CALLBACK) return "no answer for " + std::to_string(seen.most.count()) + " s";
  if (code != CURLE_OK) return why[0] != '\0' ? why.data() : curl_easy_strerror(code);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  return {};
}

}  // namespace

Connection::Connection() : curl_(curl_easy_init(), curl_easy_cleanup) {}

StoreResult Connection::send(const StoreAccess& place, const StoreCall& call, Answer& answer,
                             const std::atomic<bool>* stop) {
  if (call.name.find('/') == std::string::npos) return {Kind::kRefused, "a bucket is no object"};
  std::string url;
  const Request unsigned_request = request_of(place, call, url);
  StoreResult result;
  for (answer.tries = 0; answer.tries < place.attempts; ++answer.tries) {
    if (answer.tries > 0) wait_before(answer.tries, stop);
    if (stop != nullptr && *stop) return {Kind::kUnreachable, "another part of the upload failed"};
    Request request = unsigned_request;
    sign(request, place.credentials, utc_now("%Y%m%dT%H%M%SZ"));
    CURLcode code = CURLE_OK;
    if (std::string why = send_once(curl_.get(), place, url, request, answer, code); code != CURLE_OK) {
      result = {is_final(code) ? Kind::kRefused : Kind::kUnreachable, std::move(why)};
      if (is_final(code)) return result;
      continue;
    }
    AnswerMeaning verdict = verdict_of(answer.status, answer.body);
    answer.code = verdict.code;
    result = std::move(verdict.result);
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
  const StoreResult found = Connection().send(place, {.method = "HEAD", .name = name}, there);
  if (found.kind == Kind::kUnreachable) return found;
  return found.is_done() && there.headers["content-length"] == std::to_string(bytes) ? StoreResult{} : otherwise;
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
  const StoreResult result =
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
