// SPDX-License-Identifier: Apache-2.0
// The parts of many ranks (comm/notes/note_tree.h): their connections.
#include <sys/epoll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/quantity.h"
#include "comm/meeting.h"
#include "comm/notes/frames.h"
#include "comm/notes/note_exchange.h"
#include "comm/process_control.h"

namespace hearth::comm {

namespace {

// Before the parts have met, calls go straight to rank 0: the places of collectors, and the end of the meeting.
constexpr uint64_t kCallsOfMeeting = 2;
// A rank says its hello at once. Another program that connects, such as a probe of ports, may say nothing.
constexpr double kHello_s = 1;
constexpr double kOneConnect_s = 5;

// HOST:PORT, in numbers.
bool is_loopback(const std::string& place) {
  return place.starts_with("127.") || place.starts_with("::1:") || place.starts_with("::ffff:127.");
}

}  // namespace

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
    std::string place, word;  // the word: only those who met rank 0 get to know it
    if (me_.rank > 0 && tree.collects()) {
      const bool one_host = me_.address.starts_with("unix:");
      const std::string address = one_host ? fmt::format("{}.{}", me_.address, me_.rank) : "tcp:any:0";
      std::string why;
      door = Socket::listen(address, why);
      if (!door.valid())
        throw Error(ExitCode::kHardware, fmt::format("rank {} cannot listen at {}", me_.rank, address), why);
      const std::string own = peers_.front().socket.own_place(), port = door.own_place();
      const std::string rank_0 = me_.address.substr(0, me_.address.rfind(':'));  // "tcp:HOST"
      // On rank 0's host that connection may have a loopback address, which other hosts cannot reach. They reach the
      // name that all were given.
      const std::string host = is_loopback(own) ? rank_0 : "tcp:" + own.substr(0, own.rfind(':'));
      place = one_host ? address : host + port.substr(port.rfind(':'));
      word = random_hex(16);
      place = parts_as_bytes(std::to_string(me_.rank), place, word);
    }
    const std::string places = reduce("the places of the ranks that collect", place, merge_lists);
    if (door.valid()) accept_members(door, word);
    if (!tree.collects() && tree.collector() != 0) connect_to(tree.collector(), places);
    barrier("the meeting of the parts");
  } catch (const Error& error) {
    fail(error);
  } catch (const Aborted&) {
    wait_for_end();
  }
}

void ProcessControl::connect_to(int64_t collector, const std::string& places) {
  const std::vector<std::string> parts = parts_of(places);  // of each collector: its rank, place and word
  const auto found = std::find(parts.begin(), parts.end(), std::to_string(collector));
  HEARTH_CHECK(parts.end() - found >= 3, "no place of rank {}", collector);
  Peer& peer = peer_of(collector);
  const double deadline_s = now_s() + me_.join_timeout_s;
  std::string why;
  while (!(peer.socket = Socket::connect(*(found + 1), 0, kOneConnect_s, why)).valid()) {
    if (now_s() > deadline_s)
      throw Error(ExitCode::kHardware,
                  fmt::format("rank {} did not reach rank {} within {}", me_.rank, collector,
                              format_duration(me_.join_timeout_s)),
                  fmt::format("it listens at {}: {}; with many ranks, the first of each {} collects their messages",
                              *(found + 1), why, exchange_->tree(kCallsOfMeeting + 1).part),
                  "let the hosts of a run connect to each other's ports");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  peer.socket.send(parts_as_bytes(*(found + 2), std::to_string(me_.rank)));
  hear(peer);
}

void ProcessControl::accept_members(const Socket& door, const std::string& word) {
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
    Socket socket = door.wait(left_s) ? door.accept() : Socket();
    if (!socket.valid()) continue;
    const std::optional<std::string> bytes = socket.wait(std::min(left_s, kHello_s)) ? socket.receive() : std::nullopt;
    const auto hello = bytes ? find_parts(*bytes) : std::nullopt;          // it is short: it arrives whole
    if (!hello || hello->size() != 2 || hello->front() != word) continue;  // another program's
    const int64_t rank = std::stoll(hello->back());
    HEARTH_CHECK(std::binary_search(members.begin(), members.end(), rank), "rank {} is not of this part", rank);
    Peer& peer = peer_of(rank);
    HEARTH_CHECK(!peer.socket.valid(), "rank {} twice", rank);
    peer.socket = std::move(socket);
    hear(peer);
    --left;
  }
}

}  // namespace hearth::comm
