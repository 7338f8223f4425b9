// Stream sockets between the processes of a training: connections of one host by a name, others by host and port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hearth::comm {

// "unix:NAME", a name in Linux's abstract namespace, which leaves no file; or "tcp:HOST:PORT".
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Waits for connections. Throws user_error if the address is taken or not of this host.
  static Socket listen(const std::string& address);
  // The next connection, or an invalid socket after timeout_s.
  Socket accept(double timeout_s) const;
  // Connects; an invalid socket if nobody listens there.
  static Socket connect(const std::string& address);

  // This end, of a tcp connection: "HOST:PORT" in numbers.
  std::string own_place() const;

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
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
