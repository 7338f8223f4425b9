// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for one person on this host: GET and HEAD, one request a connection, on 127.0.0.1 only. Requests
// for another host's name are refused, so that no page of the network can read from it through a browser. A connection
// that sends or takes nothing for 30 s is closed, and does not delay other connections.
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
  // Answers requests until SIGINT or SIGTERM comes to this thread. `answer` is called with a path such as "/data".
  void serve(const std::function<PageAnswer(std::string_view path)>& answer);

 private:
  Descriptor socket_;
  int64_t port_ = 0;
};

}  // namespace hearth::report
