// SPDX-License-Identifier: Apache-2.0
// One HTTP request at a time, with libcurl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hearth::s3 {

struct HttpCall {
  std::string method, url;
  std::map<std::string, std::string> headers = {};  // lower-case names
  std::string_view body = {};
  // Where the body of a successful answer goes. Empty: to HttpAnswer::body, as that of an error always does.
  std::span<std::byte> into = {};
  // Until a connection stands, and without any byte.
  int64_t connect_timeout_s = 10, request_timeout_s = 30;
  bool is_local = false;  // the host is this machine or its neighbour: no proxy is asked
};

struct HttpAnswer {
  long status = 0;  // HTTP's; 0 without an answer. curl_easy_getinfo writes a long
  std::string body;
  std::map<std::string, std::string> headers;  // lower-case names
  int64_t received_bytes = 0;                  // of a successful answer's body
  std::string failure;                         // what went wrong on the way; empty: there was an answer
  bool is_final = false;                       // the failure stays the same at another try
};

// A connection, which one request after the other uses. For one thread at a time.
class HttpConnection {
 public:
  HttpConnection();
  void send(const HttpCall& call, HttpAnswer& answer);

 private:
  std::shared_ptr<void> curl_;
};

}  // namespace hearth::s3
