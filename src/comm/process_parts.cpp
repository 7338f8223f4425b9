// The parts of many ranks (comm/notes/note_tree.h): their connections, and which of their ranks are late.
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "base/quantity.h"
#include "comm/notes/frames.h"
#include "comm/notes/note_exchange.h"
#include "comm/process_control.h"

namespace hearth::comm {

namespace {

// Before the parts have met, calls go straight to rank 0: the places of collectors, and the end of the meeting.
constexpr uint64_t kCallsOfMeeting = 2;
// How long rank 0 waits for what the ranks of a part say about a late call.
constexpr double kAnswers_s = 1;

}  // namespace

// What ranks answered when rank 0 asked for their last calls, because call `number` is late.
struct ProcessControl::Asked {
  uint64_t number = 0;
  double at_s = 0;
  std::set<int64_t> silent{};
  std::map<int64_t, LastCall> calls{};  // by rank
};

void ProcessControl::make_exchange() {
  const int64_t part = std::min(me_.part > 0 ? me_.part : NoteTree::usual_part(me_.size), me_.size);
  exchange_ = std::make_unique<NoteExchange>(me_.rank, me_.size, part, part < me_.size ? kCallsOfMeeting : 0);
  const NoteTree& tree = exchange_->tree(kCallsOfMeeting + 1);
  if (me_.rank == 0 || tree.collector() == 0) return;  // all their connections are there
  // They are made later, but the listener's list must not move.
  for (const int64_t rank : tree.collects() ? tree.children() : std::vector<int64_t>{tree.collector()})
    peers_.emplace_back().rank = rank;
}

void ProcessControl::hear(Peer& peer) {
  epoll_event arrived{.events = EPOLLIN, .data = {.ptr = &peer}};
  if (::epoll_ctl(events_, EPOLL_CTL_ADD, peer.socket.fd(), &arrived) != 0)
    throw system_error(fmt::format("cannot wait for messages of rank {}", peer.rank), errno);
}

// The first rank of each part but the first listens, and tells all where.
void ProcessControl::link_parts() {
  const NoteTree& tree = exchange_->tree(kCallsOfMeeting + 1);
  if (tree.part >= me_.size) return;
  try {
    Socket door;
    std::string place;
    if (me_.rank > 0 && tree.collects()) {
      const bool one_host = me_.address.starts_with("unix:");
      const std::string address = one_host ? fmt::format("{}.{}", me_.address, me_.rank) : "tcp:any:0";
      door = Socket::listen(address);
      const auto host_and_port = [](const Socket& socket) {
        const std::string own = socket.own_place();
        return std::pair(own.substr(0, own.rfind(':')), own.substr(own.rfind(':') + 1));
      };
      place = one_host
                  ? address
                  : fmt::format("tcp:{}:{}", host_and_port(peers_.front().socket).first, host_and_port(door).second);
      place = frames_of(std::to_string(me_.rank), place);
    }
    const std::string places = reduce("the places of the ranks that collect", place, merge_lists);
    if (door.valid()) accept_members(door);
    if (!tree.collects() && tree.collector() != 0) connect_to(tree.collector(), places);
    barrier("the meeting of the parts");
  } catch (const Error& error) {
    fail(error);
  } catch (const Aborted&) {
    wait_for_end();
  }
}

void ProcessControl::connect_to(int64_t collector, const std::string& places) {
  const std::vector<std::string> parts = read_frames(places);  // a rank and its place, in turn
  const auto found = std::find(parts.begin(), parts.end(), std::to_string(collector));
  HEARTH_CHECK(found != parts.end() && found + 1 != parts.end(), "no place of rank {}", collector);
  Peer& peer = peer_of(collector);
  const double deadline_s = now_s() + me_.join_timeout_s;
  while (!(peer.socket = Socket::connect(*(found + 1))).valid()) {
    if (now_s() > deadline_s)
      throw Error(ExitCode::kHardware,
                  fmt::format("rank {} did not reach rank {} within {}", me_.rank, collector,
                              format_duration(me_.join_timeout_s)),
                  fmt::format("it listens at {}; with many ranks, the first of each {} collects their messages",
                              *(found + 1), exchange_->tree(kCallsOfMeeting + 1).part),
                  "let the hosts of a run connect to each other's ports");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  send(peer, {Kind::kHello, 0, frames_of(me_.key, std::to_string(me_.rank))});
  hear(peer);
}

void ProcessControl::accept_members(const Socket& door) {
  const std::vector<int64_t> members = exchange_->tree(kCallsOfMeeting + 1).children();
  const double deadline_s = now_s() + me_.join_timeout_s;
  size_t left = members.size();
  while (left > 0) {
    const double left_s = deadline_s - now_s();
    if (left_s <= 0)
      throw Error(ExitCode::kHardware,
                  fmt::format("{} of the ranks {} to {} did not reach rank {} within {}", left, members.front(),
                              members.back(), me_.rank, format_duration(me_.join_timeout_s)),
                  "they reach rank 0", "let the hosts of a run connect to each other's ports");
    Socket socket = door.accept(left_s);
    if (!socket.valid()) continue;
    const std::vector<std::string> hello = read_hello(socket, std::min(left_s, kHello_s), 2);
    if (hello.empty()) continue;  // another program's
    const int64_t rank = std::stoll(hello[1]);
    HEARTH_CHECK(std::binary_search(members.begin(), members.end(), rank), "rank {} is not of this part", rank);
    Peer& peer = peer_of(rank);
    HEARTH_CHECK(!peer.socket.valid(), "rank {} twice", rank);
    peer.socket = std::move(socket);
    hear(peer);
    --left;
  }
}

// --- late ranks

void ProcessControl::check_deadlines() {
  std::optional<OldestCall> oldest;
  {
    const std::lock_guard lock(mutex_);
    oldest = exchange_->oldest();
  }
  if (!oldest || now_s() - oldest->began_s < timeout_s_ || !have_answered(*oldest)) return;
  throw Error(ExitCode::kHardware,
              fmt::format("ranks waited {} for {}", format_duration(timeout_s_), late_ranks(*oldest)),
              "it hangs, is far slower than the others, or waits for a disk",
              "if it is merely slow, raise comm.train_timeout_seconds");
}

// Only ranks of a part know which of them is late: asks them, and says whether they have answered, or had time to.
bool ProcessControl::have_answered(const OldestCall& oldest) {
  if (!asked_ || asked_->number != oldest.number) {
    const NoteTree& tree = exchange_->tree(oldest.number);
    asked_ = std::make_shared<Asked>(Asked{.number = oldest.number, .at_s = now_s()});
    for (const int64_t child : oldest.missing_ranks)
      for (int64_t r = child; r > 0 && child != tree.last_below(child) && r <= tree.last_below(child); ++r)
        asked_->silent.insert(r);
    for (const int64_t rank : asked_->silent) send(peer_of(rank), {Kind::kAsk, oldest.number});
  }
  return asked_->silent.empty() || now_s() - asked_->at_s > kAnswers_s;
}

// "rank 3 (host, process 12) after its last call, NAME", ...
std::string ProcessControl::late_ranks(const OldestCall& oldest) {
  const NoteTree& tree = exchange_->tree(oldest.number);
  std::map<int64_t, LastCall> calls;  // by rank, as far as it is known
  {
    const std::lock_guard lock(mutex_);
    calls = exchange_->last_calls();
  }
  for (const auto& [rank, call] : asked_->calls)
    if (call.number >= calls[rank].number) calls[rank] = call;
  std::string text;
  const auto name = [&](int64_t rank) {
    text += (text.empty() ? "" : ", ") + name_of(rank);
    if (rank > 0) text += fmt::format(" after its last call, {}", calls[rank].operation);
  };
  for (const int64_t child : oldest.missing_ranks) {
    const size_t before = text.size();
    for (int64_t r = child; r <= tree.last_below(child); ++r)
      if (calls[r].number < oldest.number) name(r);
    if (text.size() == before) name(child);  // all have called, and it does not hand it on
  }
  return text;
}

void ProcessControl::answer(Peer& rank_0) {
  std::string bytes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [rank, call] : exchange_->last_calls())
      bytes += frames_of(std::to_string(rank), std::to_string(call.number), call.operation);
  }
  send(rank_0, {Kind::kAnswer, 0, bytes});
}

void ProcessControl::take_answer(int64_t rank, std::string_view bytes) {
  if (!asked_) return;
  asked_->silent.erase(rank);
  const std::vector<std::string> parts = read_frames(bytes);
  for (size_t i = 0; i + 2 < parts.size(); i += 3) {
    LastCall& call = asked_->calls[std::stoll(parts[i])];
    if (const uint64_t number = std::stoull(parts[i + 1]); number >= call.number) call = {number, parts[i + 2]};
  }
}

}  // namespace hearth::comm
