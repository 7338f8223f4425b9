// SPDX-License-Identifier: Apache-2.0
#include "report/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace hearth::report {
namespace {

constexpr size_t kMostHeaderBytes = 16384, kMostConnections = 64;

volatile std::sig_atomic_t asked_to_end = 0;

// SIGINT and SIGTERM come only while serve() waits. Restores both at its end.
class EndingSignals {
 public:
  EndingSignals() {
    asked_to_end = 0;
    sigset_t ending;
    sigemptyset(&ending);
    for (size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action {};
      action.sa_handler = [](int) { asked_to_end = 1; };
      ::sigaction(kSignals[i], &action, &before_[i]);
      sigaddset(&ending, kSignals[i]);
    }
    ::pthread_sigmask(SIG_BLOCK, &ending, &mask_);
  }
  ~EndingSignals() {
    ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  const sigset_t& while_waiting() const { return mask_; }

 private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};
  std::array<struct sigaction, 2> before_{};
  sigset_t mask_{};
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// A page of another site may have a name that leads to 127.0.0.1. Its requests name that host.
bool names_this_host(std::string_view header) {
  for (const std::string& line : split_lines(header)) {
    const std::string field = lower(line);
    if (!field.starts_with("host:")) continue;
    std::string host = field.substr(5);
    host.erase(std::remove_if(host.begin(), host.end(), [](char c) { return c == ' ' || c == '\r'; }), host.end());
    host = host.substr(0, host.find(':'));
    return host == "127.0.0.1" || host == "localhost";
  }
  return false;
}

std::string response(int status, std::string_view reason, const PageAnswer& answer, bool with_body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{}",
      status, reason, answer.type, answer.body.size(), with_body ? answer.body : "");
}

std::string refusal(int status, std::string_view reason) {
  return response(status, reason, {.type = "text/plain", .body = std::string(reason) + "\n"}, true);
}

std::string respond(std::string_view header, const std::function<PageAnswer(std::string_view)>& answer) {
  const std::string_view line = header.substr(0, header.find("\r\n"));
  const size_t first = line.find(' '), second = line.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return refusal(400, "Bad Request");
  const std::string_view method = line.substr(0, first);
  std::string_view path = line.substr(first + 1, second - first - 1);
  path = path.substr(0, path.find('?'));
  if (method != "GET" && method != "HEAD") return refusal(405, "Method Not Allowed");
  if (!names_this_host(header)) return refusal(403, "Forbidden");
  const PageAnswer found = answer(path);
  return response(found.status, found.status == 200 ? "OK" : "Not Found", found, method == "GET");
}

// One request and its answer. None waits for another: browsers keep connections on which they ask nothing, and one may
// leave in the middle of a page.
class Connection {
 public:
  explicit Connection(int socket) : socket_(socket) {}

  int socket() const { return socket_.number(); }
  short waits_for() const { return rest_.empty() ? POLLIN : POLLOUT; }
  bool is_over() const { return socket() < 0 || Clock::now() > deadline_; }

  // Reads or writes what is possible now.
  void go_on(const std::function<PageAnswer(std::string_view)>& answer) {
    if (rest_.empty()) {
      read();
      if (header_.find("\r\n\r\n") == std::string::npos) return;
      rest_ = respond(header_, answer);
      deadline_ = Clock::now() + kPatience;  // making the answer may have taken long
    }
    write();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPatience{30};  // for a request, and again for each part of an answer

  void end() { socket_.close(); }
  void read() {
    char part[2048];
    const ssize_t count = ::recv(socket(), part, sizeof part, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0 || header_.size() > kMostHeaderBytes) return end();
    header_.append(part, static_cast<size_t>(count));
  }
  void write() {
    const ssize_t count = ::send(socket(), rest_.data() + sent_, rest_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return end();
    sent_ += static_cast<size_t>(count);
    deadline_ = Clock::now() + kPatience;
    if (sent_ == rest_.size()) end();
  }

  Descriptor socket_;
  std::string header_, rest_;  // the request so far; the whole answer, of which sent_ bytes are sent
  size_t sent_ = 0;
  Clock::time_point deadline_ = Clock::now() + kPatience;
};

}  // namespace

PageServer::PageServer(int64_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  ::setsockopt(socket_.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(socket_.number(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket_.number(), 16) != 0) {
    const int error_number = errno;
    if (error_number == EADDRINUSE)
      throw user_error(fmt::format("port {} of this host is taken", port), "another program listens there",
                       "give another one with --port, or 0 for a free one");
    throw system_error(fmt::format("cannot listen on port {}", port), error_number, "give another one with --port");
  }
  ::getsockname(socket_.number(), reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}

void PageServer::serve(const std::function<PageAnswer(std::string_view path)>& answer) {
  const EndingSignals signals;
  std::vector<Connection> connections;
  while (asked_to_end == 0) {
    std::vector<pollfd> waits;
    waits.push_back({connections.size() < kMostConnections ? socket_.number() : -1, POLLIN, 0});
    for (const Connection& c : connections) waits.push_back({c.socket(), c.waits_for(), 0});
    const timespec second{1, 0};  // for the deadlines
    const int ready =
        ::ppoll(waits.data(), waits.size(), connections.empty() ? nullptr : &second, &signals.while_waiting());
    for (size_t i = 0; ready > 0 && i < connections.size(); ++i)
      if (waits[i + 1].revents != 0) connections[i].go_on(answer);
    std::erase_if(connections, [](const Connection& c) { return c.is_over(); });
    if (ready <= 0 || waits[0].revents == 0) continue;
    if (const int socket = ::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); socket >= 0)
      connections.emplace_back(socket);
  }
}

}  // namespace hearth::report
