// SPDX-License-Identifier: Apache-2.0
// Stream sockets between the processes of a training: by a name on one host, else by host and port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hearth::comm {

// "unix:NAME", a name in Linux's abstract namespace, which leaves no file; or "tcp:HOST:PORT,PORT,...", where the first
// port that is free is taken. HOST may be a name or a number, of IPv4 or IPv6.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Accepts connections at every address of this host, IPv6 and IPv4. Returns an invalid socket and sets `why` if
  // another program has the address. Throws system_error for an address that can never be used.
  static Socket listen(const std::string& address, std::string& why);
  // The next connection; an invalid socket if none waits. Throws system_error if the process may open no more files.
  Socket accept() const;
  // The number of ports of an address; 1 for a name.
  static size_t num_ports(const std::string& address);
  // Connects to a port of the address (0: the first): tries every address that the host's name has, each for at most
  // `timeout_s`. Returns an invalid socket if no address answers or the name is not known; `why` has the last error.
  static Socket connect(const std::string& address, size_t port, double timeout_s, std::string& why);

  // This end, of a tcp connection: "HOST:PORT" in numbers.
  std::string own_place() const;

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // Whether the process at the other end, on this host, has the same user. Also true for other hosts, where this is not
  // known.
  bool is_of_same_user() const;
  // Sends everything; false if the other end is gone or takes nothing for 10 s.
  bool send(std::string_view bytes) const;
  // Whether something arrives, or the other end closes, within timeout_s.
  bool wait(double timeout_s) const;
  // What has arrived, at most 64 KiB; waits for it. nullopt: the other end is gone.
  std::optional<std::string> receive() const;
  void close();

 private:
  int fd_ = -1;
};

// The bytes of this process's connections so far.
struct Traffic {
  int64_t sent = 0, received = 0;
};
Traffic socket_traffic();

}  // namespace hearth::comm
