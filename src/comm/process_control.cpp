#include "comm/process_control.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/quantity.h"

namespace hearth::comm {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(250);
// How long rank 0 waits for its own error after another rank's: if all ranks fail for one reason, rank 0 names it.
constexpr auto kOwnErrorFirst = std::chrono::milliseconds(250);
// How long a rank that failed waits to be told to end.
constexpr auto kToldToEnd = std::chrono::seconds(5);
// How much longer than the time for all ranks to come a rank waits for rank 0's answer.
constexpr double kAnswerAfterAll_s = 2;
// A rank says hello at once. Another program that connects, such as a probe of ports, may say nothing.
constexpr double kHello_s = 1;
// A rank waits this much longer than rank 0, which can name the missing ranks.
constexpr double kLongerThanRank0_s = 1;

void put(std::string& to, std::string_view part) {
  const uint64_t size = part.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to += part;
}

// The parts that put() wrote; nullopt for other bytes.
std::optional<std::vector<std::string>> find_parts(std::string_view bytes) {
  std::vector<std::string> parts;
  while (!bytes.empty()) {
    uint64_t size = 0;
    if (bytes.size() < sizeof size) return std::nullopt;
    std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() - sizeof size < size) return std::nullopt;
    parts.emplace_back(bytes.substr(sizeof size, size));
    bytes.remove_prefix(sizeof size + size);
  }
  return parts;
}

// The same, of a message from a rank that has been met.
std::vector<std::string> parts_of(std::string_view bytes) {
  std::optional<std::vector<std::string>> parts = find_parts(bytes);
  HEARTH_CHECK(parts.has_value(), "a message of {} bytes has no parts", bytes.size());
  return std::move(*parts);
}

template <class... Parts>
std::string message_of(const Parts&... parts) {
  std::string bytes;
  (put(bytes, parts), ...);
  return bytes;
}

std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("{}, process {}", host, ::getpid());
}

}  // namespace

struct ProcessControl::Head {
  Kind kind;
  uint32_t reserved;
  uint64_t number, bytes;
};

ProcessControl::ProcessControl(const Membership& membership) : me_(membership), timeout_s_(membership.timeout_s) {
  if (me_.rank == 0) {
    meet_all();
  } else {
    meet_rank_0();
  }
  if (::pipe2(wake_, O_CLOEXEC) != 0) throw system_error("cannot make a pipe", errno);
  listener_ = std::thread([this] { listen(); });
}

ProcessControl::~ProcessControl() {
  for (Peer& peer : peers_) send(peer, {Kind::kBye});
  stop_ = true;
  [[maybe_unused]] const auto woken = ::write(wake_[1], "", 1);
  listener_.join();
  for (const int end : wake_) ::close(end);
}

// --- meeting

void ProcessControl::meet_all() {
  const Socket door = Socket::listen(me_.address);
  for (int64_t r = 1; r < me_.size; ++r) {
    peers_.emplace_back();
    peers_.back().rank = r;
  }
  const auto deadline = Clock::now() + std::chrono::duration<double>(me_.join_timeout_s);
  const auto absent = [this] {
    std::vector<int64_t> ranks;
    for (const Peer& peer : peers_)
      if (!peer.socket.valid()) ranks.push_back(peer.rank);
    return ranks;
  };
  while (!absent().empty()) {
    const double left_s = std::chrono::duration<double>(deadline - Clock::now()).count();
    Socket socket = left_s > 0 ? door.accept(left_s) : Socket();
    if (!socket.valid()) {
      if (left_s > 0) continue;
      throw Error(ExitCode::kHardware,
                  fmt::format("{} did not start within {}", list_ranks(absent()), format_duration(me_.join_timeout_s)),
                  fmt::format("rank 0 waited for them at {}", me_.address), "see the messages of the missing ranks");
    }
    const std::vector<std::string> hello = read_hello(socket, std::min(left_s, kHello_s));
    if (hello.empty()) continue;
    const int64_t rank = std::stoll(hello[2]), size = std::stoll(hello[3]);
    std::string problem;
    if (hello[1] != HEARTH_VERSION) problem = fmt::format("has version {}, rank 0 {}", hello[1], HEARTH_VERSION);
    if (size != me_.size) problem = fmt::format("was started as one of {} ranks, rank 0 as one of {}", size, me_.size);
    if (problem.empty() && (rank < 1 || rank >= me_.size || peers_[static_cast<size_t>(rank) - 1].socket.valid()))
      problem = "was started twice";
    if (!problem.empty())
      throw user_error(fmt::format("rank {} ({}) {}", rank, hello[4], problem), "the ranks are not of one start",
                       "start all ranks by one command");
    Peer& peer = peers_[static_cast<size_t>(rank) - 1];
    peer.socket = std::move(socket);
    peer.host = hello[4];
  }
  for (Peer& peer : peers_) send(peer, {Kind::kHello, 0, this_process()});
}

std::vector<std::string> ProcessControl::read_hello(const Socket& socket, double timeout_s) const {
  const std::optional<std::string> bytes = socket.wait(timeout_s) ? socket.receive() : std::nullopt;
  if (!bytes || bytes->size() < sizeof(Head)) return {};  // a hello is short: it arrives whole
  const auto parts = find_parts(std::string_view(*bytes).substr(sizeof(Head)));
  return parts && parts->size() == 5 && parts->front() == me_.key ? *parts : std::vector<std::string>();
}

void ProcessControl::meet_rank_0() {
  const auto deadline = Clock::now() + std::chrono::duration<double>(me_.join_timeout_s);
  Peer& peer = peers_.emplace_back();
  while (!(peer.socket = Socket::connect(me_.address)).valid()) {
    if (Clock::now() > deadline)
      throw Error(ExitCode::kHardware,
                  fmt::format("rank {} did not find rank 0 within {}", me_.rank, format_duration(me_.join_timeout_s)),
                  fmt::format("it should listen at {}", me_.address), "see the messages of rank 0");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string hello = message_of(me_.key, std::string_view(HEARTH_VERSION), std::to_string(me_.rank),
                                       std::to_string(me_.size), this_process());
  send(peer, {Kind::kHello, 0, hello});
  // Rank 0 answers when all ranks have come, or ends.
  const double left_s = std::chrono::duration<double>(deadline - Clock::now()).count() + kAnswerAfterAll_s;
  if (!peer.socket.wait(left_s))
    throw Error(ExitCode::kHardware, fmt::format("rank {} got no answer at {}", me_.rank, me_.address),
                "another program listens there, or rank 0 hangs",
                "see the messages of rank 0; MASTER_PORT names another port");
  const std::optional<std::string> bytes = peer.socket.receive();
  // Rank 0 has said why.
  if (!bytes || bytes->size() < sizeof(Head)) std::_Exit(static_cast<int>(ExitCode::kUser));
  Head head;
  std::memcpy(&head, bytes->data(), sizeof head);
  peer.host = bytes->substr(sizeof head, head.bytes);
  peer.received = bytes->substr(sizeof head + head.bytes);
}

// --- calls

Posted ProcessControl::post(std::string_view operation, std::string_view bytes, Answers to) {
  if (aborted_) throw Aborted{};
  const uint64_t number = ++number_;
  const mesh::FlightScope recorded(operation, number, static_cast<int64_t>(bytes.size()), mesh::kPostedMessage);
  if (me_.rank == 0) {
    add_note(number, 0, {std::string(operation), std::string(bytes), to});
  } else {
    send(peers_.front(), {Kind::kNote, number, message_of(operation, bytes, to == Answers::kAll ? "all" : "rank 0")});
  }
  return {number, std::string(operation)};
}

std::vector<std::string> ProcessControl::collect(const Posted& posted) {
  const mesh::FlightScope recorded(posted.operation, posted.number, 0, mesh::kAwaitedMessage);
  std::unique_lock lock(mutex_);
  const auto began = Clock::now();
  const auto arrived = [&] { return results_.contains(posted.number) || aborted_; };
  while (!changed_.wait_for(lock, kPoll, arrived)) {
    const double waited_s = std::chrono::duration<double>(Clock::now() - began).count();
    if (me_.rank != 0 && waited_s > timeout_s_ + kLongerThanRank0_s)
      throw_missing(me_.rank, posted.operation, waited_s, name_of(0));
  }
  if (aborted_) throw Aborted{};
  return results_.extract(posted.number).mapped();
}

void ProcessControl::add_note(uint64_t number, int64_t rank, Note note) {
  std::string result;
  {
    const std::lock_guard lock(mutex_);
    if (rank != 0) peers_[static_cast<size_t>(rank) - 1].last_call = note.operation;
    Call& call = calls_.try_emplace(number, me_.size).first->second;
    call.notes.add(rank, std::move(note));
    if (!call.notes.complete()) return;
    std::vector<std::string> all = call.notes.bytes();
    if (call.notes.answers() == Answers::kAll)
      for (const std::string& bytes : all) put(result, bytes);
    results_.emplace(number, std::move(all));
    calls_.erase(number);
  }
  changed_.notify_all();
  for (Peer& peer : peers_) send(peer, {Kind::kResult, number, result});
}

void ProcessControl::abort() {
  aborted_ = true;
  changed_.notify_all();
}

void ProcessControl::send(Peer& peer, const Message& message) {
  const Head head{message.kind, 0, message.number, message.bytes.size()};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += message.bytes;
  const std::lock_guard lock(sending_);
  peer.socket.send(bytes);  // if it fails, the listener notices that the other end is gone
}

// --- the listener

void ProcessControl::listen() {
  try {
    for (Peer& peer : peers_)
      if (!peer.received.empty()) receive(peer);
    while (!stop_) {
      std::vector<pollfd> wanted{{wake_[0], POLLIN, 0}};
      std::vector<Peer*> open;
      for (Peer& peer : peers_) {
        if (!peer.socket.valid()) continue;
        wanted.push_back({peer.socket.fd(), POLLIN, 0});
        open.push_back(&peer);
      }
      ::poll(wanted.data(), wanted.size(), static_cast<int>(kPoll.count()));
      for (size_t i = 0; i < open.size() && !stop_; ++i) {
        if (wanted[i + 1].revents == 0) continue;
        const std::optional<std::string> bytes = open[i]->socket.receive();
        if (!bytes) {
          lost(*open[i]);
        } else {
          open[i]->received += *bytes;
          receive(*open[i]);
        }
      }
      if (me_.rank == 0) check_deadlines();
    }
  } catch (const Error& error) {
    fail(error);
  }
}

void ProcessControl::receive(Peer& peer) {
  Head head{};
  while (peer.received.size() >= sizeof head) {
    std::memcpy(&head, peer.received.data(), sizeof head);
    if (peer.received.size() - sizeof head < head.bytes) return;
    const Message message{head.kind, head.number, peer.received.substr(sizeof head, head.bytes)};
    peer.received.erase(0, sizeof head + head.bytes);
    take(peer, message);
  }
}

void ProcessControl::take(Peer& peer, const Message& message) {
  switch (message.kind) {
    case Kind::kNote: {
      std::vector<std::string> parts = parts_of(message.bytes);
      parts.resize(3);
      const Answers to = parts[2] == "all" ? Answers::kAll : Answers::kRank0;
      return add_note(message.number, peer.rank, {std::move(parts[0]), std::move(parts[1]), to});
    }
    case Kind::kResult: {
      {
        const std::lock_guard lock(mutex_);
        results_.emplace(message.number, parts_of(message.bytes));
      }
      return changed_.notify_all();
    }
    case Kind::kFailure: {
      const std::vector<std::string> parts = parts_of(message.bytes);
      end_all(static_cast<ExitCode>(message.number), fmt::format("{}\n  rank: {}", parts.front(), name_of(peer.rank)));
    }
    case Kind::kEnd:
      std::_Exit(static_cast<int>(message.number));
    case Kind::kBye:
      peer.ended = true;
      return;
    case Kind::kHello:
      break;
  }
  HEARTH_CHECK(false, "a message of kind {}", static_cast<int>(message.kind));
}

void ProcessControl::lost(Peer& peer) {
  peer.socket.close();
  if (peer.ended || stop_) return;
  const std::string text = fmt::format(
      "error: {} has died{}\n  why: it was killed, its node failed, or the network did\n  fix: see its log, and the "
      "kernel's log for a lack of memory; the run goes on from its last checkpoint",
      name_of(peer.rank), step_ > 0 ? fmt::format(" in step {}", step_.load()) : "");
  if (me_.rank == 0) end_all(ExitCode::kHardware, text);
  if (me_.rank == 1 && !me_.supervised) log_message(LogLevel::kError, text);
  std::_Exit(static_cast<int>(ExitCode::kHardware));
}

void ProcessControl::check_deadlines() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (calls_.empty()) return;
    const Call& oldest = calls_.begin()->second;
    if (std::chrono::duration<double>(Clock::now() - oldest.began).count() < timeout_s_) return;
    for (const int64_t rank : oldest.notes.missing_ranks()) {
      text += (text.empty() ? "" : ", ") + name_of(rank);
      if (rank > 0) text += fmt::format(" after its last call, {}", peers_[static_cast<size_t>(rank) - 1].last_call);
    }
  }
  throw Error(ExitCode::kHardware, fmt::format("ranks waited {} for {}", format_duration(timeout_s_), text),
              "it hangs, is far slower than the others, or waits for a disk",
              "if it is merely slow, raise comm.train_timeout_seconds");
}

std::string ProcessControl::name_of(int64_t rank) const {
  if (rank == me_.rank) return fmt::format("rank {} ({})", rank, this_process());
  return fmt::format("rank {} ({})", rank, peers_[me_.rank == 0 ? static_cast<size_t>(rank) - 1 : 0].host);
}

// --- the end

void ProcessControl::end_all(ExitCode code, const std::string& text) {
  std::string said = text;
  if (ending_.exchange(true))  // another thread ends the process
    for (;;) std::this_thread::sleep_for(kToldToEnd);
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kOwnErrorFirst, [this] { return own_failure_.has_value(); });
    if (own_failure_) {
      said = own_failure_->what();
      code = own_failure_->code();
    }
  }
  log_message(LogLevel::kError, said + (code == ExitCode::kHardware ? mesh::flight_hint() : ""));
  for (Peer& peer : peers_)
    if (peer.socket.valid()) send(peer, {Kind::kEnd, static_cast<uint64_t>(code)});
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

void ProcessControl::fail(const Error& error) {
  if (me_.rank == 0) {
    {
      const std::lock_guard lock(mutex_);
      own_failure_ = error;
    }
    changed_.notify_all();
    end_all(error.code(), error.what());
  }
  send(peers_.front(),
       {Kind::kFailure, static_cast<uint64_t>(error.code()), message_of(std::string_view(error.what()))});
  std::fflush(nullptr);
  wait_for_end();
}

void ProcessControl::wait_for_end() {
  std::this_thread::sleep_for(kToldToEnd);
  std::_Exit(static_cast<int>(ExitCode::kHardware));
}

}  // namespace hearth::comm
