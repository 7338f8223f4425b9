#include "s3/request.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <thread>

#include "s3/settings.h"

namespace hearth::s3 {
namespace {

using Kind = StoreResult::Kind;

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[20];
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc)};
}

// RFC 3986, and "/" stays.
std::string encoded(std::string_view key) {
  std::string text;
  for (const char c : key) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto value = static_cast<unsigned char>(c);
    if (is_plain)
      text += c;
    else
      text += {'%', kDigits[value >> 4], kDigits[value & 15]};
  }
  return text;
}

size_t append(const char* bytes, size_t size, size_t count, void* text) {
  static_cast<std::string*>(text)->append(bytes, size * count);
  return size * count;
}

struct Answer {
  CURLcode code = CURLE_OK;
  long status = 0;  // of HTTP; curl_easy_getinfo writes a long
  std::string body;
};

Answer send(const std::string& url, const Request& request) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), &curl_easy_cleanup);
  curl_slist* list = nullptr;
  for (const auto& [name, value] : request.headers) list = curl_slist_append(list, (name + ": " + value).c_str());
  list = curl_slist_append(list, "Expect:");
  list = curl_slist_append(list, "Content-Type:");
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, &curl_slist_free_all);
  Answer answer;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, 10L);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, 60L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  answer.code = curl_easy_perform(curl.get());
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  return answer;
}

// The error's code in S3's answer, such as "PreconditionFailed".
std::string code_in(const std::string& xml) {
  const size_t begin = xml.find("<Code>"), end = xml.find("</Code>");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return xml.substr(begin + 6, std::min<size_t>(end - begin - 6, 100));
}

// Sends until another try will not help. `status` is HTTP's, 0 without an answer.
StoreResult try_often(const Place& place, const std::string& method, const std::string& name,
                      const std::map<std::string, std::string>& headers, std::string_view body, long& status,
                      std::string& code) {
  const size_t slash = name.find('/'), host = place.endpoint.find("://") + 3;
  if (slash == std::string::npos) return {Kind::kRefused, "a bucket is no object"};
  const std::string bucket = name.substr(0, slash), key = name.substr(slash + 1);
  const std::string authority = (place.is_virtual ? bucket + "." : "") + place.endpoint.substr(host);
  Request request{.method = method, .path = "/" + encoded(place.is_virtual ? key : name), .headers = {}, .body = body};
  const std::string url = place.endpoint.substr(0, host) + authority + request.path;

  StoreResult result;
  for (int64_t attempt = 0; attempt < attempts(); ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100 << std::min<int64_t>(attempt, 8)));
    request.headers = headers;
    request.headers["host"] = authority;
    sign(request, place.credentials, now());
    const Answer answer = send(url, request);
    status = answer.status;
    if (answer.code != CURLE_OK) {
      result = {Kind::kUnreachable, curl_easy_strerror(answer.code)};
      continue;
    }
    if (status / 100 == 2) return {};
    code = code_in(answer.body);
    const std::string why = "the store answers " + std::to_string(status) + (code.empty() ? "" : " " + code);
    result = {Kind::kUnreachable, why};
    if (status / 100 == 4 && status != 408 && status != 429)
      return {status == 404 ? Kind::kMissing : Kind::kRefused, why};
    if (status == 501) return {Kind::kRefused, why};
  }
  return result;
}

}  // namespace

StoreResult put_new(const Place& place, const std::string& name, std::string_view content, bool& is_unknown) {
  long status = 0;
  std::string code;
  StoreResult result = try_often(place, "PUT", name, {{"if-none-match", "*"}}, content, status, code);
  if (result.is_done()) return result;
  // 409: another conditional request to the same object is under way.
  if (status == 412 || status == 409) result.kind = Kind::kThere;
  is_unknown = status == 501 || code == "NotImplemented" || code == "InvalidArgument";
  return result;
}

StoreResult remove(const Place& place, const std::string& name) {
  long status = 0;
  std::string code;
  const StoreResult result = try_often(place, "DELETE", name, {}, {}, status, code);
  return result.kind == Kind::kMissing && code != "NoSuchBucket" ? StoreResult{} : result;
}

}  // namespace hearth::s3
