#include "comm/process_control.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/quantity.h"
#include "comm/notes/frames.h"
#include "comm/notes/note_exchange.h"

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
constexpr double kLongerThanRank0_s = 3;
// How long a rank of a part that lost its connection waits for rank 0's word: the other rank has usually died.
constexpr double kLostLink_s = 2;

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

double ProcessControl::now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

ProcessControl::ProcessControl(const Membership& membership) : me_(membership), timeout_s_(membership.timeout_s) {
  if (me_.rank == 0) {
    meet_all();
  } else {
    meet_rank_0();
  }
  if (::pipe2(wake_, O_CLOEXEC) != 0) throw system_error("cannot make a pipe", errno);
  events_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (events_ < 0) throw system_error("cannot wait for messages", errno);
  epoll_event woken{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(events_, EPOLL_CTL_ADD, wake_[0], &woken);
  for (Peer& peer : peers_) hear(peer);
  make_exchange();
  listener_ = std::thread([this] { listen(); });
  link_parts();
}

ProcessControl::~ProcessControl() {
  for (Peer& peer : peers_) send(peer, {Kind::kBye});
  stop_ = true;
  [[maybe_unused]] const auto woken = ::write(wake_[1], "", 1);
  listener_.join();
  for (const int end : {wake_[0], wake_[1], events_}) ::close(end);
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
    const std::vector<std::string> hello = read_hello(socket, std::min(left_s, kHello_s), 5);
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

std::vector<std::string> ProcessControl::read_hello(const Socket& socket, double timeout_s, size_t num_parts) const {
  const std::optional<std::string> bytes = socket.wait(timeout_s) ? socket.receive() : std::nullopt;
  if (!bytes || bytes->size() < sizeof(Head)) return {};  // a hello is short: it arrives whole
  const auto parts = find_frames(std::string_view(*bytes).substr(sizeof(Head)));
  return parts && parts->size() == num_parts && parts->front() == me_.key ? *parts : std::vector<std::string>();
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
  const std::string hello = frames_of(me_.key, std::string_view(HEARTH_VERSION), std::to_string(me_.rank),
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

ProcessControl::Peer& ProcessControl::peer_of(int64_t rank) {
  if (me_.rank == 0) return peers_[static_cast<size_t>(rank) - 1];
  if (rank == 0) return peers_.front();
  return rank > me_.rank ? peers_[static_cast<size_t>(rank - me_.rank)] : peers_[1];
}

// --- calls

template <class Step>
void ProcessControl::exchange(Step step) {
  std::optional<NoteExchange::Outgoing> out;
  {
    const std::lock_guard lock(mutex_);
    out = step(*exchange_);
  }
  if (out && out->is_result && me_.rank == 0) changed_.notify_all();
  if (!out) return;
  for (const int64_t rank : *out->to)
    send(peer_of(rank), {out->is_result ? Kind::kResult : Kind::kNote, out->number, out->bytes});
}

Posted ProcessControl::post(std::string_view operation, std::string_view bytes, Merge merge, Answers to) {
  if (aborted_) throw Aborted{};
  const uint64_t number = ++number_;
  const mesh::FlightScope recorded(operation, number, static_cast<int64_t>(bytes.size()), mesh::kPostedMessage);
  exchange([&](NoteExchange& notes) {
    return notes.post(number, {std::string(operation), std::string(bytes), merge, to}, now_s());
  });
  return {number, std::string(operation)};
}

std::string ProcessControl::collect(const Posted& posted) {
  const mesh::FlightScope recorded(posted.operation, posted.number, 0, mesh::kAwaitedMessage);
  std::unique_lock lock(mutex_);
  const double began_s = now_s();
  const auto arrived = [&] { return exchange_->has_result(posted.number) || aborted_; };
  while (!changed_.wait_for(lock, kPoll, arrived)) {
    const double waited_s = now_s() - began_s;
    if (me_.rank != 0 && waited_s > timeout_s_ + kLongerThanRank0_s)
      throw_missing(me_.rank, posted.operation, waited_s, name_of(0));
  }
  if (aborted_) throw Aborted{};
  return exchange_->take_result_of(posted.number);
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
    if (me_.rank != 0 && !peers_.front().received.empty()) receive(peers_.front());  // behind rank 0's hello
    std::array<epoll_event, 64> events{};
    while (!stop_) {
      const int count =
          ::epoll_wait(events_, events.data(), static_cast<int>(events.size()), static_cast<int>(kPoll.count()));
      for (int i = 0; i < count && !stop_; ++i) {
        if (events[static_cast<size_t>(i)].data.ptr == nullptr) continue;
        Peer& peer = *static_cast<Peer*>(events[static_cast<size_t>(i)].data.ptr);
        const std::optional<std::string> bytes = peer.socket.receive();
        if (!bytes) {
          lost(peer);
        } else {
          peer.received += *bytes;
          receive(peer);
        }
      }
      if (me_.rank == 0) check_deadlines();
      if (lost_link_ && now_s() - lost_link_->second > kLostLink_s)
        throw Error(ExitCode::kHardware,
                    fmt::format("rank {} and rank {} lost their connection", me_.rank, lost_link_->first),
                    "both still reach rank 0, but not each other", "check the network between their hosts");
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
    case Kind::kNote:
      return exchange(
          [&](NoteExchange& notes) { return notes.take_note(message.number, peer.rank, message.bytes, now_s()); });
    case Kind::kResult:
      exchange([&](NoteExchange& notes) { return notes.take_result(message.number, message.bytes); });
      return changed_.notify_all();
    case Kind::kAsk:
      return answer(peer);
    case Kind::kAnswer:
      return take_answer(peer.rank, message.bytes);
    case Kind::kFailure: {
      const std::vector<std::string> parts = read_frames(message.bytes);
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
  if (me_.rank != 0 && peer.rank != 0) {  // rank 0 hears of a death, too, and names it
    if (!lost_link_) lost_link_ = {peer.rank, now_s()};
    return;
  }
  const std::string text = fmt::format(
      "error: {} has died{}\n  why: it was killed, its node failed, or the network did\n  fix: see its log, and the "
      "kernel's log for a lack of memory; the run goes on from its last checkpoint",
      name_of(peer.rank), step_ > 0 ? fmt::format(" in step {}", step_.load()) : "");
  if (me_.rank == 0) end_all(ExitCode::kHardware, text);
  if (me_.rank == 1 && !me_.supervised) log_message(LogLevel::kError, text);
  std::_Exit(static_cast<int>(ExitCode::kHardware));
}

std::string ProcessControl::name_of(int64_t rank) const {
  if (rank == me_.rank) return fmt::format("rank {} ({})", rank, this_process());
  const Peer& peer = me_.rank == 0 ? peers_[static_cast<size_t>(rank) - 1] : peers_.front();
  return fmt::format("rank {} ({})", rank, peer.host);
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
       {Kind::kFailure, static_cast<uint64_t>(error.code()), frames_of(std::string_view(error.what()))});
  std::fflush(nullptr);
  wait_for_end();
}

void ProcessControl::wait_for_end() {
  std::this_thread::sleep_for(kToldToEnd);
  std::_Exit(static_cast<int>(ExitCode::kHardware));
}

}  // namespace hearth::comm
