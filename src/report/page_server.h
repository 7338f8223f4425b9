// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for one person on this host: GET and HEAD, one request a connection, on 127.0.0.1 only. Requests
// for another host's name are refused, so that no page of the network can read from it through a browser. Connections
// that say or take nothing for 30 s are closed, and hold up no other one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth::report {

struct PageAnswer {
  int status = 200;  // 200 or 404
  std::string type = "text/html; charset=utf-8";
  std::string body;
};

class PageServer {
 public:
  // `port` 0: a free one. Throws user_error if the port is taken.
  explicit PageServer(int64_t port);

  int64_t port() const { return port_; }
  // Answers requests, with `answer` of a path such as "/data", until SIGINT or SIGTERM comes to this thread.
  void serve(const std::function<PageAnswer(std::string_view path)>& answer);

 private:
  Descriptor socket_;
  int64_t port_ = 0;
};

}  // namespace hearth::report
