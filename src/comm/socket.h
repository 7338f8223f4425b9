// SPDX-License-Identifier: Apache-2.0
// Stream sockets between the processes of a training: connections of one host by a name, others by host and port.
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

  // Takes connections at every address of this host, of IPv6 and of IPv4. An invalid socket: another program has the
  // address, and `why` says so. Throws system_error for an address that is not to be had later either.
  static Socket listen(const std::string& address, std::string& why);
  // The next connection; an invalid socket if none waits. Throws system_error if the process may open no more files.
  Socket accept() const;
  // The number of ports of an address; 1 for a name.
  static size_t num_ports(const std::string& address);
  // Connects to a port of the address (0: the first): tries every address that the host's name has, each for at most
  // `timeout_s`. An invalid socket: none answers, or the name is not known; `why` says what came of the last one.
  static Socket connect(const std::string& address, size_t port, double timeout_s, std::string& why);

  // This end, of a tcp connection: "HOST:PORT" in numbers.
  std::string own_place() const;

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // Whether the other end, a process of this host, belongs to this process's user. True for other hosts: not known.
  bool is_of_same_user() const;
  // Sends everything; false if the other end is gone or takes nothing for 10 s.
  bool send(std::string_view bytes) const;
  // Whether something arrives, or the other end goes, within timeout_s.
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
