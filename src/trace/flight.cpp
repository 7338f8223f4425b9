// SPDX-License-Identifier: Apache-2.0
#include "trace/flight.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/program.h"

namespace hearth::trace {
namespace {

constexpr std::string_view kMagic = "HEARTHFR";
constexpr uint32_t kVersion = 1;
constexpr size_t kFileBytes = sizeof(FlightHead) + kFlightCalls * sizeof(FlightCall);

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <size_t kSize>
void put(char (&to)[kSize], std::string_view from) {
  const size_t length = std::min(from.size(), kSize - 1);
  std::memcpy(to, from.data(), length);
  to[length] = 0;
}

// Until the first 0, or all of it: a damaged file may have none.
template <size_t kSize>
std::string text_of(const char (&from)[kSize]) {
  return {from, ::strnlen(from, kSize)};
}

bool is_flight(const std::string& name) { return name.starts_with("rank-") && name.ends_with(".ring"); }

}  // namespace

FlightWriter::FlightWriter(const Path& file, int64_t rank, int64_t ranks) {
  make_folders(file.parent_path());
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) throw system_error(fmt::format("cannot create {}", file.string()), errno);
  // Places are reserved now: a disk that is full later cannot end the process.
  const int error = ::posix_fallocate(descriptor, 0, kFileBytes);
  void* memory = error == 0 ? ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : nullptr;
  const int map_error = errno;
  ::close(descriptor);
  if (error != 0) throw system_error(fmt::format("cannot reserve {}", file.string()), error);
  if (memory == MAP_FAILED) throw system_error(fmt::format("cannot map {}", file.string()), map_error);
  head_ = static_cast<FlightHead*>(memory);
  calls_ = reinterpret_cast<FlightCall*>(head_ + 1);
  std::memcpy(head_->magic, kMagic.data(), kMagic.size());
  head_->version = kVersion;
  head_->rank = rank;
  head_->ranks = ranks;
  head_->process = ::getpid();
  put(head_->host, host_name());
}

FlightWriter::~FlightWriter() { ::munmap(head_, kFileBytes); }

int32_t FlightWriter::add_group(const FlightGroup& group) {
  const uint32_t index = std::min<uint32_t>(num_groups_++, kFlightGroups - 1);
  head_->groups[index] = group;
  head_->num_groups = index + 1;
  return static_cast<int32_t>(index);
}

uint64_t FlightWriter::begin(std::string_view name, int32_t group, int64_t sequence, int64_t bytes, int32_t peer) {
  const uint64_t number = ++number_;
  FlightCall& call = calls_[number % kFlightCalls];
  std::atomic_ref(call.number).store(0, std::memory_order_release);  // what follows is not whole yet
  call.sequence = sequence;
  call.step = step_;
  call.bytes = bytes;
  call.begin_ns = now_ns();
  call.end_ns = 0;
  call.group = group;
  call.peer = peer;
  put(call.name, name);
  std::atomic_ref(call.number).store(number, std::memory_order_release);
  return number;
}

void FlightWriter::end(uint64_t number) {
  FlightCall& call = calls_[number % kFlightCalls];
  if (call.number == number) call.end_ns = now_ns();
}

void FlightWriter::set_ended() { head_->ended = 1; }

Path flight_file(const Path& folder, int64_t rank) { return folder / fmt::format("rank-{:05}.ring", rank); }

Flight read_flight(const Path& file) {
  const std::string bytes = read_file(file);
  const auto refuse = [&](std::string_view why) {
    return damaged(fmt::format("{} is no record of a rank's calls", file.string()), std::string(why),
                   "give the folder RUN/flight of a run with several ranks");
  };
  if (bytes.size() != kFileBytes) throw refuse(fmt::format("it has {} bytes, not {}", bytes.size(), kFileBytes));
  FlightHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::string_view(head.magic, kMagic.size()) != kMagic) throw refuse("it does not begin with HEARTHFR");
  if (head.version != kVersion) throw refuse(fmt::format("it has version {}, not {}", head.version, kVersion));
  constexpr int32_t kMostRanks = 1 << 20;  // readers list the ranks of a group
  if (head.ranks < 1 || head.ranks > kMostRanks || head.rank < 0 || head.rank >= head.ranks ||
      head.num_groups > kFlightGroups)
    throw refuse(fmt::format("it is of rank {} of {} in {} groups", head.rank, head.ranks, head.num_groups));
  Flight flight{head.rank, head.ranks, head.process, text_of(head.host), head.ended == 1, {}, {}};
  for (uint32_t g = 0; g < head.num_groups; ++g) {
    const FlightGroup& group = head.groups[g];
    if (group.count < 1 || group.count > head.ranks || group.first < 0 || group.step < 1 ||
        group.first + int64_t{group.step} * (group.count - 1) >= head.ranks)
      throw refuse(fmt::format("its group {} is damaged", g));
    flight.groups.push_back(group);
  }
  for (int64_t i = 0; i < kFlightCalls; ++i) {
    FlightCall call;
    std::memcpy(&call, bytes.data() + sizeof head + static_cast<size_t>(i) * sizeof call, sizeof call);
    if (call.number == 0) continue;
    if (call.number % kFlightCalls != static_cast<uint64_t>(i) || call.group < 0 ||
        call.group >= std::ssize(flight.groups) || call.peer < kAwaitedMessage || call.peer >= head.ranks ||
        call.sequence < 0)
      throw refuse(fmt::format("its call number {} is damaged", call.number));
    call.name[sizeof call.name - 1] = 0;
    flight.calls.push_back(call);
  }
  std::ranges::sort(flight.calls, {}, &FlightCall::number);
  return flight;
}

bool has_flights(const Path& folder) {
  if (!std::filesystem::is_directory(folder)) return false;
  return std::ranges::any_of(list_folder(folder), is_flight);
}

std::vector<Flight> read_flights(const Path& folder) {
  std::vector<Flight> flights;
  for (const std::string& name : list_folder(folder))
    if (is_flight(name)) flights.push_back(read_flight(folder / name));
  if (flights.empty())
    throw user_error(fmt::format("there are no records of calls in {}", folder.string()),
                     "a run of several ranks writes RUN/flight/rank-00000.ring and so on", "give RUN/flight");
  std::ranges::sort(flights, {}, &Flight::rank);
  for (size_t i = 0; i < flights.size(); ++i)
    if (flights[i].ranks != flights[0].ranks || (i > 0 && flights[i].rank == flights[i - 1].rank))
      throw damaged(fmt::format("the records in {} are not of one training", folder.string()),
                    fmt::format("rank {} of {} and rank {} of {}", flights[0].rank, flights[0].ranks, flights[i].rank,
                                flights[i].ranks),
                    "give RUN/flight of one run");
  return flights;
}

}  // namespace hearth::trace
