#include "comm/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace hearth::comm {

namespace {

constexpr int kSendSeconds = 10;
std::atomic<int64_t> bytes_sent = 0, bytes_received = 0;
constexpr size_t kReceiveBytes = size_t{64} << 10;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

Address unix_address(std::string_view name) {
  Address address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.bytes);
  un.sun_family = AF_UNIX;
  HEARTH_CHECK(name.size() + 1 < sizeof un.sun_path, "a socket's name of {} bytes", name.size());
  std::memcpy(un.sun_path + 1, name.data(), name.size());  // a leading 0: the abstract namespace
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Address tcp_address(const std::string& host_and_port, bool to_listen) {
  const size_t colon = host_and_port.rfind(':');
  HEARTH_CHECK(colon != std::string::npos, "{} has no port", host_and_port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  hints.ai_family = to_listen ? AF_INET : AF_UNSPEC;
  addrinfo* found = nullptr;
  const std::string host = host_and_port.substr(0, colon), port = host_and_port.substr(colon + 1);
  // A listener takes connections on every address of the host: the others may know it by another name.
  const int code = ::getaddrinfo(to_listen ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) throw user_error(fmt::format("the host {} is not known", host), ::gai_strerror(code));
  Address address;
  std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

Address resolve(const std::string& address, bool to_listen) {
  if (address.starts_with("unix:")) return unix_address(std::string_view(address).substr(5));
  HEARTH_CHECK(address.starts_with("tcp:"), "{} is no address", address);
  return tcp_address(address.substr(4), to_listen);
}

Socket new_socket(const Address& address) {
  Socket socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) throw system_error("cannot make a socket", errno);
  return socket;
}

void set_options(const Socket& socket) {
  const int yes = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // without effect on a Unix socket
  const timeval limit{kSendSeconds, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

Socket::~Socket() { close(); }
Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Socket Socket::listen(const std::string& address) {
  const Address at = resolve(address, true);
  Socket socket = new_socket(at);
  const int yes = 1;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.fd(), at.get(), at.size) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0)
    throw user_error(fmt::format("rank 0 cannot wait for the other ranks at {}", address), std::strerror(errno),
                     "another program may use the port: set MASTER_PORT to a free one");
  return socket;
}

Socket Socket::accept(double timeout_s) const {
  pollfd wanted{fd_, POLLIN, 0};
  if (::poll(&wanted, 1, static_cast<int>(timeout_s * 1000)) <= 0) return {};
  Socket socket(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.valid()) set_options(socket);
  return socket;
}

Socket Socket::connect(const std::string& address) {
  const Address at = resolve(address, false);
  Socket socket = new_socket(at);
  if (::connect(socket.fd(), at.get(), at.size) != 0) return {};
  set_options(socket);
  return socket;
}

bool Socket::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
    bytes_sent += sent;
  }
  return true;
}

bool Socket::wait(double timeout_s) const {
  pollfd waiting{fd_, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(1e3 * std::max(0.0, timeout_s))) != 0;
}

std::optional<std::string> Socket::receive() const {
  std::string bytes(kReceiveBytes, '\0');
  ssize_t got = 0;
  do got = ::recv(fd_, bytes.data(), bytes.size(), 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  bytes_received += got;
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

Traffic socket_traffic() { return {bytes_sent, bytes_received}; }

std::string Socket::own_place() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    throw system_error("cannot find the address of a connection", errno);
  return fmt::format("{}:{}", host, port);
}

}  // namespace hearth::comm
