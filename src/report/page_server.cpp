#include "report/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace hearth::report {
namespace {

constexpr size_t kMostHeaderBytes = 16384;

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

// Whether `socket` is ready before the time is over. A signal ends the wait.
bool is_ready(int socket, short events, int64_t milliseconds, const sigset_t& mask) {
  pollfd wanted{socket, events, 0};
  const timespec time{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1000000};
  return ::ppoll(&wanted, 1, milliseconds < 0 ? nullptr : &time, &mask) > 0;
}

// Up to the empty line that ends it; nullopt if none comes.
std::optional<std::string> read_header(int connection, const sigset_t& mask) {
  std::string header;
  char part[2048];
  while (header.find("\r\n\r\n") == std::string::npos) {
    if (header.size() > kMostHeaderBytes || !is_ready(connection, POLLIN, 2000, mask)) return std::nullopt;
    const ssize_t count = ::recv(connection, part, sizeof part, 0);
    if (count <= 0) return std::nullopt;
    header.append(part, static_cast<size_t>(count));
  }
  return header;
}

void send_all(int connection, std::string_view text, const sigset_t& mask) {
  while (!text.empty()) {
    if (!is_ready(connection, POLLOUT, 10000, mask)) return;
    const ssize_t count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

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

}  // namespace

PageServer::PageServer(int64_t port) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 16) != 0) {
    const int error_number = errno;
    ::close(socket_);
    if (error_number == EADDRINUSE)
      throw user_error(fmt::format("port {} of this host is taken", port), "another program listens there",
                       "give another one with --port, or 0 for a free one");
    throw system_error(fmt::format("cannot listen on port {}", port), error_number, "give another one with --port");
  }
  ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}

PageServer::~PageServer() { ::close(socket_); }

void PageServer::serve(const std::function<PageAnswer(std::string_view path)>& answer) {
  const EndingSignals signals;
  while (asked_to_end == 0) {
    if (!is_ready(socket_, POLLIN, -1, signals.while_waiting())) continue;
    const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    if (const auto header = read_header(connection, signals.while_waiting()))
      send_all(connection, respond(*header, answer), signals.while_waiting());
    ::close(connection);
  }
}

}  // namespace hearth::report
