// SPDX-License-Identifier: Apache-2.0
#include "comm/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

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

bool is_name(const std::string& address) { return address.starts_with("unix:"); }

Address unix_address(std::string_view name) {
  Address address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.bytes);
  un.sun_family = AF_UNIX;
  HEARTH_CHECK(name.size() + 1 < sizeof un.sun_path, "a socket's name of {} bytes", name.size());
  std::memcpy(un.sun_path + 1, name.data(), name.size());  // a leading 0: the abstract namespace
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

struct HostAndPorts {
  std::string host;
  std::vector<std::string> ports;
};

HostAndPorts parse(const std::string& address) {
  const size_t colon = address.rfind(':');
  HEARTH_CHECK(address.starts_with("tcp:") && colon > 3, "{} is no address", address);
  HostAndPorts parsed{.host = address.substr(4, colon - 4), .ports = {}};
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']')
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  for (size_t begin = colon + 1; begin <= address.size();) {
    const size_t end = std::min(address.find(',', begin), address.size());
    parsed.ports.push_back(address.substr(begin, end - begin));
    begin = end + 1;
  }
  return parsed;
}

// Every address that a host has. Empty: `why` says what the system's names say.
std::vector<Address> addresses_of(const std::string& host, const std::string& port, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_family = AF_UNSPEC;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) why = fmt::format("the host {} is not known: {}", host, ::gai_strerror(code));
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Address& address = addresses.emplace_back();
    std::memcpy(&address.bytes, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
  }
  if (found != nullptr) ::freeaddrinfo(found);
  return addresses;
}

// Every address of this host.
Address any_address(int family, const std::string& port) {
  Address address;
  const auto number = static_cast<in_port_t>(std::stoi(port));
  if (family == AF_INET6) {
    auto& in = reinterpret_cast<sockaddr_in6&>(address.bytes);
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(number);
    in.sin6_addr = in6addr_any;
    address.size = sizeof in;
  } else {
    auto& in = reinterpret_cast<sockaddr_in&>(address.bytes);
    in.sin_family = AF_INET;
    in.sin_port = htons(number);
    in.sin_addr.s_addr = INADDR_ANY;
    address.size = sizeof in;
  }
  return address;
}

Socket new_socket(int family) { return Socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

void block(const Socket& socket) { ::fcntl(socket.fd(), F_SETFL, ::fcntl(socket.fd(), F_GETFL) & ~O_NONBLOCK); }

void set_options(const Socket& socket) {
  const int yes = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // without effect on a Unix socket
  const timeval limit{kSendSeconds, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// 0, or errno.
int bind_and_listen(const Socket& socket, const Address& at) {
  const int yes = 1, no = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (at.get()->sa_family == AF_INET6)  // it takes connections of IPv4, too
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  return ::bind(socket.fd(), at.get(), at.size) == 0 && ::listen(socket.fd(), SOMAXCONN) == 0 ? 0 : errno;
}

// 0, or errno.
int connect_within(const Socket& socket, const Address& to, double timeout_s) {
  if (::connect(socket.fd(), to.get(), to.size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{socket.fd(), POLLOUT, 0};
  if (::poll(&waiting, 1, static_cast<int>(1e3 * timeout_s)) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
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

Socket Socket::listen(const std::string& address, std::string& why) {
  std::vector<Address> places;
  const std::vector<std::string> ports = is_name(address) ? std::vector<std::string>() : parse(address).ports;
  if (is_name(address)) places.push_back(unix_address(std::string_view(address).substr(5)));
  for (const std::string& port : ports) places.push_back(any_address(AF_INET6, port));
  for (size_t i = 0; i < places.size(); ++i) {
    Socket socket = new_socket(places[i].get()->sa_family);
    int error = socket.valid() ? bind_and_listen(socket, places[i]) : errno;
    // A host without IPv6 makes no such socket, or has no such address.
    if ((error == EAFNOSUPPORT || error == EADDRNOTAVAIL) && !is_name(address)) {
      socket = new_socket(AF_INET);
      error = socket.valid() ? bind_and_listen(socket, any_address(AF_INET, ports[i])) : errno;
    }
    if (error == 0) return socket;
    why = std::strerror(error);
    if (error != EADDRINUSE)
      throw system_error(fmt::format("rank 0 cannot wait for the other ranks at {}", address), error,
                         error == EACCES ? "set MASTER_PORT to a port above 1023" : "");
  }
  return {};
}

Socket Socket::accept() const {
  Socket socket(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
    throw system_error("cannot take another rank's connection", errno,
                       "raise the limit of open files: `ulimit -n` in the shell, or LimitNOFILE of Slurm's slurmd");
  if (socket.valid()) set_options(socket);
  return socket;
}

size_t Socket::num_ports(const std::string& address) { return is_name(address) ? 1 : parse(address).ports.size(); }

Socket Socket::connect(const std::string& address, size_t port, double timeout_s, std::string& why) {
  std::vector<Address> places;
  if (is_name(address)) {
    places.push_back(unix_address(std::string_view(address).substr(5)));
  } else {
    const HostAndPorts parsed = parse(address);
    places = addresses_of(parsed.host, parsed.ports.at(port), why);
  }
  for (const Address& place : places) {
    Socket socket = new_socket(place.get()->sa_family);
    const int error = socket.valid() ? connect_within(socket, place, timeout_s) : errno;
    if (error != 0) {
      why = std::strerror(error);
      continue;
    }
    block(socket);
    set_options(socket);
    return socket;
  }
  return {};
}

bool Socket::is_of_same_user() const {
  ucred other{};
  socklen_t size = sizeof other;
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &own_size);
  if (own.ss_family != AF_UNIX) return true;
  return ::getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == ::geteuid();
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
  std::array<char, kReceiveBytes> bytes;  // not filled with zeros: a message is usually short
  ssize_t got = 0;
  do got = ::recv(fd_, bytes.data(), bytes.size(), 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  bytes_received += got;
  return std::string(bytes.data(), static_cast<size_t>(got));
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
