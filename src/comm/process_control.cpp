// SPDX-License-Identifier: Apache-2.0
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
// How long a rank of a part that lost its connection waits for rank 0's word: the other rank has usually died.
constexpr double kLostLink_s = 2;
// The listener looks every kPoll. A process that did not for so long, or for as long as the others wait, was stopped.
constexpr double kAway_s = 4, kShortestAway_s = 1;

}  // namespace

struct ProcessControl::Head {
  Kind kind;
  uint32_t reserved;
  uint64_t number, bytes;
};

double ProcessControl::now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

ProcessControl::ProcessControl(const Membership& membership) : me_(membership), timeout_s_(membership.timeout_s) {
  std::vector<Met> met;
  if (me_.rank == 0) {
    met = meet_all(me_);
  } else {
    met.push_back(meet_rank_0(me_));
  }
  for (Met& other : met) {
    Peer& peer = peers_.emplace_back();
    peer.rank = other.rank;
    peer.socket = std::move(other.socket);
    peer.host = std::move(other.process);
    peer.received = std::move(other.received);
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
  await_ends();
  stop_ = true;
  [[maybe_unused]] const auto woken = ::write(wake_[1], "", 1);
  listener_.join();
  for (const int end : {wake_[0], wake_[1], events_}) ::close(end);
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

Posted ProcessControl::post(std::string_view operation, std::string_view bytes, NoteMerge merge, Answers to) {
  if (aborted_) throw Aborted{};
  const uint64_t number = ++number_;
  const trace::FlightScope recorded(operation, number, static_cast<int64_t>(bytes.size()), trace::kPostedMessage);
  exchange([&](NoteExchange& notes) {
    return notes.post(number, {std::string(operation), std::string(bytes), merge, to}, now_s());
  });
  return {number, std::string(operation)};
}

std::string ProcessControl::collect(const Posted& posted) {
  const trace::FlightScope recorded(posted.operation, posted.number, 0, trace::kAwaitedMessage);
  std::unique_lock lock(mutex_);
  const auto began = Clock::now();
  const auto arrived = [&] { return exchange_->has_result(posted.number) || aborted_; };
  while (!changed_.wait_for(lock, kPoll, arrived)) {
    const Clock::time_point heard{Clock::duration(heard_)};
    const double waited_s = std::chrono::duration<double>(Clock::now() - std::max(began, heard)).count();
    if (me_.rank == 0 || waited_s < timeout_s_ + kLongerThanRank0_s) continue;
    lock.unlock();
    report_hang(
        Error(ExitCode::kHardware,
              fmt::format("rank {} waited {} for rank 0 in {}", me_.rank, format_duration(waited_s), posted.operation),
              "a rank hangs, is far slower than the others, or waits for a disk",
              fmt::format("if it is merely slow, raise {}", timeout_key())));
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
  while (!stop_) {
    try {
      return hear_all();
    } catch (const Error& error) {
      if (me_.rank == 0) fail(error);
      // Rank 0's answer must still be heard: it ends this process.
      lost_link_.reset();
      if (!std::exchange(has_failed_, true)) std::thread([this, error] { fail(error); }).detach();
    }
  }
}

void ProcessControl::hear_all() {
  for (Peer& peer : peers_)
    if (!peer.received.empty()) receive(peer);
  std::array<epoll_event, 64> events{};
  double looked_s = now_s();
  while (!stop_) {
    const int count =
        ::epoll_wait(events_, events.data(), static_cast<int>(events.size()), static_cast<int>(kPoll.count()));
    // From one look to the next, because a process may be stopped at any place between them.
    const double before_s = std::exchange(looked_s, now_s());
    if (looked_s - before_s > std::clamp(timeout_s_.load(), kShortestAway_s, kAway_s))
      away_ = {looked_s - before_s, looked_s};
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
    give_signs();
    check_watched();
    if (me_.rank == 0) check_deadlines();
    if (me_.rank == 0) judge_hang();
    if (lost_link_ && now_s() - lost_link_->second > kLostLink_s)
      throw Error(ExitCode::kHardware,
                  fmt::format("rank {} and rank {} lost their connection", me_.rank, lost_link_->first),
                  "both still reach rank 0, but not each other", "check the network between their hosts");
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
    case Kind::kFailure: {
      const std::vector<std::string> parts = parts_of(message.bytes);
      const bool is_named = parts.front().find(kRankLine) != std::string::npos;
      end_all(static_cast<ExitCode>(message.number),
              is_named ? parts.front() : fmt::format("{}{}{}", parts.front(), kRankLine, name_of(peer.rank)));
    }
    case Kind::kSign:
      peer.sign = Clock::now();
      if (me_.rank == 0) owes_sign_ = true;  // it is handed on
      heard_ = peer.sign.time_since_epoch().count();
      return;
    case Kind::kHang: {
      const std::lock_guard lock(mutex_);
      if (!hang_) hang_ = message.bytes;
      return;
    }
    case Kind::kWhere: {
      const trace::CallNow now = trace::call_now();
      return send(
          peer, {Kind::kHere, 0, parts_as_bytes(now.name, now.under_way ? "in" : "", fmt::format("{}", now.seconds))});
    }
    case Kind::kHere: {
      const std::vector<std::string> parts = parts_of(message.bytes);
      peer.now = {parts.at(0), !parts.at(1).empty(), std::stod(parts.at(2))};
      peer.answered = true;
      return;
    }
    case Kind::kEnd:
      std::_Exit(static_cast<int>(message.number));
    case Kind::kBye: {
      const std::lock_guard lock(mutex_);
      peer.ended = true;
      return changed_.notify_all();
    }
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
  // The others give up a process that was stopped. A launcher that ends it wakes it first.
  if (away_ && now_s() - away_->second < kAway_s) {
    log_message(LogLevel::kError, fmt::format("error: {} was stopped for {}, and {} ended meanwhile", name_of(me_.rank),
                                              format_duration(away_->first), name_of(peer.rank)));
    // Ranks that have not given rank 0 up yet would take its end for a death.
    if (me_.rank == 0) tell_all_to_end(ExitCode::kHardware);
    std::_Exit(static_cast<int>(ExitCode::kHardware));
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
  log_message(LogLevel::kError, said + (code == ExitCode::kHardware ? trace::flight_hint() : ""));
  tell_all_to_end(code);
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

void ProcessControl::tell_all_to_end(ExitCode code) {
  for (Peer& peer : peers_)
    if (peer.socket.valid()) send(peer, {Kind::kEnd, static_cast<uint64_t>(code)});
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
       {Kind::kFailure, static_cast<uint64_t>(error.code()), parts_as_bytes(std::string_view(error.what()))});
  std::fflush(nullptr);
  end_without_answer(error.what());
}

void ProcessControl::wait_for_end() {
  std::this_thread::sleep_for(kToldToEnd + 6 * kTurn);  // another rank knows more, and may have to say it
  std::_Exit(static_cast<int>(ExitCode::kHardware));
}

}  // namespace hearth::comm
