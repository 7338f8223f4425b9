// SPDX-License-Identifier: Apache-2.0
#include "s3/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

namespace hearth::s3 {
namespace {

// Where the bytes of a body go.
struct Sink {
  CURL* const curl;
  const std::span<std::byte> into;
  HttpAnswer& answer;
};

// Another result than all bytes ends the request.
size_t take_body(const char* bytes, size_t size, size_t count, void* of_request) {
  Sink& sink = *static_cast<Sink*>(of_request);
  const size_t all = size * count;
  long status = 0;
  curl_easy_getinfo(sink.curl, CURLINFO_RESPONSE_CODE, &status);
  if (status / 100 == 2) {
    const auto at = static_cast<size_t>(sink.answer.received_bytes);
    sink.answer.received_bytes += static_cast<int64_t>(all);
    if (!sink.into.empty()) {
      if (all > sink.into.size() - at) return 0;
      std::memcpy(sink.into.data() + at, bytes, all);
      return all;
    }
  }
  sink.answer.body.append(bytes, all);
  return all;
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

// Errors of curl that stay the same at another try.
bool is_final(CURLcode code) {
  return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_PEER_FAILED_VERIFICATION ||
         code == CURLE_SSL_CACERT_BADFILE || code == CURLE_WRITE_ERROR;
}

void set_method(CURL* curl, const HttpCall& call) {
  if (call.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (call.method == "GET") {
    curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
  } else {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call.method.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call.body.data());
  }
}

}  // namespace

HttpConnection::HttpConnection() : curl_(curl_easy_init(), curl_easy_cleanup) {}

void HttpConnection::send(const HttpCall& call, HttpAnswer& answer) {
  CURL* const curl = curl_.get();
  curl_slist* list = nullptr;
  for (const auto& [name, value] : call.headers) list = curl_slist_append(list, (name + ": " + value).c_str());
  list = curl_slist_append(list, "Expect:");
  if (!call.headers.contains("content-type")) list = curl_slist_append(list, "Content-Type:");
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, &curl_slist_free_all);
  answer = {};
  curl_easy_reset(curl);  // of options: the connection stays open
  curl_easy_setopt(curl, CURLOPT_URL, call.url.c_str());
  set_method(curl, call);
  if (call.is_local) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  Sink sink{curl, call.into, answer};
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &sink);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, add_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer.headers);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(call.connect_timeout_s));
  Watch seen{std::chrono::seconds(call.request_timeout_s)};
  curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, begin_watch);
  curl_easy_setopt(curl, CURLOPT_PREREQDATA, &seen);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &seen);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  std::array<char, CURL_ERROR_SIZE> why{};
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why.data());
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  if (code == CURLE_OK) return;
  answer.is_final = is_final(code);
  if (code == CURLE_ABORTED_BY_CALLBACK)
    answer.failure = "no answer for " + std::to_string(seen.most.count()) + " s";
  else if (code == CURLE_WRITE_ERROR)
    answer.failure = "the answer has more bytes than were asked for";
  else
    answer.failure = why[0] != '\0' ? why.data() : curl_easy_strerror(code);
}

}  // namespace hearth::s3
