// SPDX-License-Identifier: Apache-2.0
// Stands for NCCL in tests: the functions of comm/nccl_api.h for ranks of one host, on host memory. A communicator is a
// segment of shared memory that its name finds. Calls block until all ranks have made them, and compare what they do;
// sends and receives wait for their peer alone.
//
// Knobs, in the environment: HEARTH_FAKE_NCCL_DELAY_MS sleeps in each call; HEARTH_FAKE_NCCL_DIE and _HANG, each
// "RANK:CALL", end or stop that rank of the first communicator in its call with that number, from 1;
// HEARTH_FAKE_NCCL_HANG_AT_START=RANK stops it before the ranks meet; HEARTH_FAKE_NCCL_HANG_IN_ABORT stops all aborts.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "comm/nccl_api.h"

namespace {

using hearth::comm::nccl::UniqueId;
namespace nccl = hearth::comm::nccl;

constexpr int kInvalidUsage = 5, kRemoteError = nccl::kRemoteError;
constexpr size_t kPlaceBytes = size_t{1} << 16;
constexpr int kMaxRanks = 16;

std::string last_error;

struct Said {
  char operation[16];
  size_t count;
  int type;
};

struct Shared {
  std::atomic<uint32_t> arrived[kMaxRanks], left[kMaxRanks];  // number of meetings
  std::atomic<uint32_t> aborted;
  Said said[kMaxRanks];
  std::byte place[kMaxRanks][kPlaceBytes];
  // A rank's sends: the number of pieces sent and taken, who takes the last, and the bytes from it on.
  std::atomic<uint32_t> sent[kMaxRanks], taken[kMaxRanks];
  std::atomic<int> taker[kMaxRanks];
  std::atomic<size_t> left_of_letter[kMaxRanks];
  std::byte letter[kMaxRanks][kPlaceBytes];
};

size_t size_of(int type) {
  return type == nccl::kUint8 ? 1 : type == nccl::kBfloat16 ? 2 : type == nccl::kFloat32 ? 4 : 8;
}

struct Transfer {
  bool send;
  std::byte* at;
  size_t bytes;
  int peer;
};

}  // namespace

namespace hearth::comm::nccl {

struct CommState {
  std::string name;
  Shared* shared;
  int rank, size;
  uint32_t meetings = 0;
  int calls = 0, splits = 0;
  bool first = false;
};

}  // namespace hearth::comm::nccl

namespace {

thread_local std::vector<Transfer> transfers;
thread_local nccl::Communicator transfers_of = nullptr;
thread_local bool in_group = false;

nccl::Communicator open_comm(const std::string& name, int rank, int size) {
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Shared)) != 0) return nullptr;
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return new nccl::CommState{name, static_cast<Shared*>(memory), rank, size};
}

bool wait_for(nccl::Communicator comm, std::atomic<uint32_t>* counters) {
  for (int r = 0; r < comm->size; ++r) {
    while (counters[r].load() < comm->meetings) {
      if (comm->shared->aborted.load() != 0) return false;
      ::sched_yield();
    }
  }
  return true;
}

// All ranks have come. Then read others' places, and leave().
bool arrive(nccl::Communicator comm) {
  ++comm->meetings;
  comm->shared->arrived[comm->rank].store(comm->meetings);
  return wait_for(comm, comm->shared->arrived);
}
bool leave(nccl::Communicator comm) {
  comm->shared->left[comm->rank].store(comm->meetings);
  return wait_for(comm, comm->shared->left);
}

bool is_now(nccl::Communicator comm, const char* knob) {
  const char* const text = std::getenv(knob);
  return text != nullptr && comm->first &&
         std::string(text) == std::to_string(comm->rank) + ":" + std::to_string(comm->calls);
}

int begin_call(nccl::Communicator comm, const char* operation, size_t count, int type) {
  ++comm->calls;
  if (is_now(comm, "HEARTH_FAKE_NCCL_DIE")) ::raise(SIGKILL);
  while (is_now(comm, "HEARTH_FAKE_NCCL_HANG")) ::usleep(10'000);
  if (const char* const delay = std::getenv("HEARTH_FAKE_NCCL_DELAY_MS"))
    ::usleep(1000 * static_cast<unsigned>(std::atoi(delay)));
  Said& mine = comm->shared->said[comm->rank];
  std::strncpy(mine.operation, operation, sizeof mine.operation - 1);
  mine.count = count;
  mine.type = type;
  if (!arrive(comm)) return kRemoteError;
  for (int r = 0; r < comm->size; ++r) {
    const Said& other = comm->shared->said[r];
    if (std::strcmp(other.operation, operation) == 0 && other.count == count && other.type == type) continue;
    last_error = std::string(operation) + " of " + std::to_string(count) + " meets " + other.operation + " of " +
                 std::to_string(other.count) + " on rank " + std::to_string(r);
    return kInvalidUsage;
  }
  return leave(comm) ? nccl::kSuccess : kRemoteError;
}

// Calls read(r, offset, bytes) for each rank's place, piece by piece; `from(offset, bytes)` fills this rank's.
template <class From, class Read>
int in_pieces(nccl::Communicator comm, size_t bytes, const From& from, const Read& read) {
  for (size_t offset = 0; offset < bytes; offset += kPlaceBytes) {
    const size_t piece = std::min(kPlaceBytes, bytes - offset);
    std::memcpy(comm->shared->place[comm->rank], from(offset), piece);
    if (!arrive(comm)) return kRemoteError;
    for (int r = 0; r < comm->size; ++r) read(r, offset, piece);
    if (!leave(comm)) return kRemoteError;
  }
  return nccl::kSuccess;
}

float wide(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }
uint16_t narrow(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void add(std::byte* sum, const std::byte* more, size_t bytes, int type) {
  for (size_t i = 0; i < bytes; i += size_of(type)) {
    if (type == nccl::kFloat32) {
      float a, b;
      std::memcpy(&a, sum + i, 4), std::memcpy(&b, more + i, 4);
      a += b;
      std::memcpy(sum + i, &a, 4);
    } else if (type == nccl::kFloat64) {
      double a, b;
      std::memcpy(&a, sum + i, 8), std::memcpy(&b, more + i, 8);
      a += b;
      std::memcpy(sum + i, &a, 8);
    } else {
      uint16_t a, b;
      std::memcpy(&a, sum + i, 2), std::memcpy(&b, more + i, 2);
      a = narrow(wide(a) + wide(b));
      std::memcpy(sum + i, &a, 2);
    }
  }
}

// to [bytes] = the sum over ranks of from [bytes]. In the order of ranks, which is not that of pairs.
int sum(nccl::Communicator comm, const std::byte* from, std::byte* to, size_t bytes, int type) {
  return in_pieces(
      comm, bytes, [&](size_t offset) { return from + offset; },
      [&](int r, size_t offset, size_t piece) {
        if (to == nullptr) return;
        if (r == 0) {
          std::memcpy(to + offset, comm->shared->place[0], piece);
        } else {
          add(to + offset, comm->shared->place[r], piece, type);
        }
      });
}

// Makes the transfers, in which every send has its receive at the peer. A rank sends one after the other, and takes
// what comes meanwhile, as NCCL's groups do. A send waits until its last piece was taken.
int make_transfers(nccl::Communicator comm, std::vector<Transfer> all) {
  Shared& shared = *comm->shared;
  const int me = comm->rank;
  const auto send_to_me = std::find_if(all.begin(), all.end(), [&](auto&t) { return t.send && t.peer == me; }),
             recv_from_me = std::find_if(all.begin(), all.end(), [&](auto&t) { return !t.send && t.peer == me; });
  if (send_to_me != all.end() && recv_from_me != all.end()) {
    std::copy_n(send_to_me->at, send_to_me->bytes, recv_from_me->at);  // of an empty part there may be no memory
    send_to_me->bytes = recv_from_me->bytes = 0;
  }
  bool is_on_its_way = false;  // a piece of the first send that is left
  for (;;) {
    std::erase_if(all, [](const Transfer& t) { return t.bytes == 0; });
    if (all.empty()) return nccl::kSuccess;
    if (shared.aborted != 0) return kRemoteError;
    for (Transfer& t : all) {
      const auto from = static_cast<size_t>(t.peer);
      if (t.send || shared.sent[from] == shared.taken[from] || shared.taker[from] != me) continue;
      if (shared.left_of_letter[from] != t.bytes) {
        last_error = "a send of " + std::to_string(shared.left_of_letter[from]) + " bytes meets a receive of " +
                     std::to_string(t.bytes);
        return kInvalidUsage;
      }
      const size_t piece = std::min(kPlaceBytes, t.bytes);
      std::memcpy(t.at, shared.letter[from], piece);
      t.at += piece, t.bytes -= piece;
      ++shared.taken[from];
    }
    const auto send = std::find_if(all.begin(), all.end(), [](const Transfer& t) { return t.send && t.bytes > 0; });
    if (send == all.end()) {
      ::sched_yield();
      continue;
    }
    const size_t piece = std::min(kPlaceBytes, send->bytes);
    if (!is_on_its_way) {
      std::memcpy(shared.letter[me], send->at, piece);
      shared.taker[me] = send->peer;
      shared.left_of_letter[me] = send->bytes;
      ++shared.sent[me];
      is_on_its_way = true;
    } else if (shared.sent[me] == shared.taken[me]) {
      send->at += piece, send->bytes -= piece;
      is_on_its_way = false;
    } else {
      ::sched_yield();
    }
  }
}

int add_transfer(nccl::Communicator comm, const Transfer& t) {
  if (!in_group) return make_transfers(comm, {t});
  transfers_of = comm;
  transfers.push_back(t);
  return nccl::kSuccess;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  const char* const given = std::getenv("HEARTH_FAKE_NCCL_VERSION");
  *version = given != nullptr ? std::atoi(given) : 22809;
  return nccl::kSuccess;
}

int ncclGetUniqueId(UniqueId* id) {
  std::snprintf(id->internal, sizeof id->internal, "/hearth-fake-nccl-%d", ::getpid());
  ::shm_unlink(id->internal);
  return nccl::kSuccess;
}

int ncclCommInitRankConfig(nccl::Communicator* comm, int num_ranks, UniqueId id, int rank, nccl::Config*) {
  const char* const hangs = std::getenv("HEARTH_FAKE_NCCL_HANG_AT_START");
  while (hangs != nullptr && std::atoi(hangs) == rank) ::usleep(10'000);
  *comm = open_comm(id.internal, rank, num_ranks);
  if (*comm == nullptr) return 2;
  (*comm)->first = true;
  if (!arrive(*comm) || !leave(*comm)) return kRemoteError;
  if (rank == 0) ::shm_unlink(id.internal);
  return nccl::kSuccess;
}

int ncclCommSplit(nccl::Communicator comm, int color, int, nccl::Communicator* part, nccl::Config*) {
  std::vector<int> colors(static_cast<size_t>(comm->size));
  const int number = ++comm->splits;
  if (const int result = begin_call(comm, "split", 0, 0); result != nccl::kSuccess) return result;
  const int result = in_pieces(
      comm, sizeof color, [&](size_t) { return reinterpret_cast<const std::byte*>(&color); },
      [&](int r, size_t, size_t) {
        std::memcpy(&colors[static_cast<size_t>(r)], comm->shared->place[r], sizeof(int));
      });
  if (result != nccl::kSuccess) return result;
  *part = nullptr;
  if (color == nccl::kSplitNoColor) return nccl::kSuccess;
  const int size = static_cast<int>(std::count(colors.begin(), colors.end(), color));
  const int rank = static_cast<int>(std::count(colors.begin(), colors.begin() + comm->rank, color));
  const std::string name = comm->name + "-" + std::to_string(number) + "-" + std::to_string(color);
  *part = open_comm(name, rank, size);
  if (*part == nullptr) return 2;
  if (!arrive(*part) || !leave(*part)) return kRemoteError;
  if (rank == 0) ::shm_unlink(name.c_str());
  return nccl::kSuccess;
}

int ncclCommDestroy(nccl::Communicator comm) {
  ::munmap(comm->shared, sizeof(Shared));
  delete comm;
  return nccl::kSuccess;
}
int ncclCommAbort(nccl::Communicator comm) {
  while (std::getenv("HEARTH_FAKE_NCCL_HANG_IN_ABORT") != nullptr) ::usleep(10'000);
  comm->shared->aborted.store(1);
  return nccl::kSuccess;
}
int ncclCommGetAsyncError(nccl::Communicator comm, int* error) {
  *error = comm->shared->aborted.load() != 0 ? kRemoteError : nccl::kSuccess;
  return nccl::kSuccess;
}
const char* ncclGetErrorString(int error) {
  return error == kInvalidUsage ? "invalid usage" : error == kRemoteError ? "remote process exited" : "system error";
}
const char* ncclGetLastError(nccl::Communicator) { return last_error.c_str(); }

int ncclAllGather(const void* from, void* to, size_t count, int type, nccl::Communicator comm, nccl::StreamHandle) {
  if (const int result = begin_call(comm, "all_gather", count, type); result != nccl::kSuccess) return result;
  const size_t bytes = count * size_of(type);
  const std::vector<std::byte> mine(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  return in_pieces(
      comm, bytes, [&](size_t offset) { return mine.data() + offset; },
      [&](int r, size_t offset, size_t piece) {
        std::memcpy(static_cast<std::byte*>(to) + static_cast<size_t>(r) * bytes + offset, comm->shared->place[r],
                    piece);
      });
}

int ncclReduceScatter(const void* from, void* to, size_t count, int type, int, nccl::Communicator comm,
                      nccl::StreamHandle) {
  if (const int result = begin_call(comm, "reduce_scatter", count, type); result != nccl::kSuccess) return result;
  const size_t bytes = count * size_of(type);
  const std::byte* const all = static_cast<const std::byte*>(from);
  std::vector<std::byte> own(bytes);
  for (int r = 0; r < comm->size; ++r) {
    const int result =
        sum(comm, all + static_cast<size_t>(r) * bytes, r == comm->rank ? own.data() : nullptr, bytes, type);
    if (result != nccl::kSuccess) return result;
  }
  std::memcpy(to, own.data(), bytes);
  return nccl::kSuccess;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int, nccl::Communicator comm,
                  nccl::StreamHandle) {
  if (const int result = begin_call(comm, "all_reduce", count, type); result != nccl::kSuccess) return result;
  const size_t bytes = count * size_of(type);
  const std::vector<std::byte> mine(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  return sum(comm, mine.data(), static_cast<std::byte*>(to), bytes, type);
}

int ncclSend(const void* from, size_t count, int type, int peer, nccl::Communicator comm, nccl::StreamHandle) {
  return add_transfer(comm, {true, static_cast<std::byte*>(const_cast<void*>(from)), count * size_of(type), peer});
}
int ncclRecv(void* to, size_t count, int type, int peer, nccl::Communicator comm, nccl::StreamHandle) {
  return add_transfer(comm, {false, static_cast<std::byte*>(to), count * size_of(type), peer});
}
int ncclGroupStart() {
  transfers.clear();
  in_group = true;
  return nccl::kSuccess;
}
// Each rank has a transfer to and from each, perhaps of nothing: an all-to-all.
int ncclGroupEnd() {
  in_group = false;
  std::vector<Transfer> all = std::exchange(transfers, {});
  if (all.empty()) return nccl::kSuccess;
  if (const int result = begin_call(transfers_of, "exchange", 0, nccl::kUint8); result != nccl::kSuccess) return result;
  return make_transfers(transfers_of, std::move(all));
}

}  // extern "C"
