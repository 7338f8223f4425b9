// SPDX-License-Identifier: Apache-2.0
// NCCL for ranks that are threads, on the emulated device's streams: the functions of comm/nccl_api.h. A call only
// enqueues. When a rank's stream reaches it, the rank has come; when all have come, the call reads all inputs. Each
// rank's output is written when its own stream goes on, which may be much later.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "comm/nccl_api.h"
#include "support/emulated/queues.h"

namespace {

namespace nccl = hearth::comm::nccl;
using hearth::test::emulated::Queue;
using hearth::test::emulated::Queues;

constexpr int kInvalidUsage = 5, kRemoteError = 6;

using Bytes = std::vector<std::byte>;

size_t size_of(int type) {
  return type == nccl::kUint8 ? 1 : type == nccl::kBfloat16 ? 2 : type == nccl::kFloat32 ? 4 : 8;
}

enum class Kind { kAllGather, kReduceScatter, kAllReduce, kExchange };

// What all ranks of a communicator do together. Bytes are of one rank's shard; of a whole tensor in kAllReduce; 0 in
// kExchange, whose ends have their own.
struct What {
  Kind kind;
  size_t bytes;
  int type;
  bool operator==(const What&) const = default;
};

struct Ends {
  std::vector<const std::byte*> from;  // one, or one for each rank
  std::vector<std::byte*> to;
  std::vector<size_t> from_bytes = {}, to_bytes = {};  // of kExchange, by rank
};

struct Call {
  What what;
  std::vector<bool> has_come;
  std::vector<Ends> ranks;
  std::vector<Bytes> results;  // of each rank; empty: not yet
  int num_called = 0, num_done = 0;

  bool all_have_come() const {
    return num_called == std::ssize(has_come) && std::count(has_come.begin(), has_come.end(), false) == 0;
  }
};

struct Letter {
  bool sender_has_come = false, receiver_has_come = false, is_read = false, one_has_ended = false;
  const std::byte* from = nullptr;
  Bytes bytes;
};

// What all ranks share; used within Queues::locked() and steps only.
struct Shared {
  std::string name;
  int size;
  int joined = 0;
  bool aborted = false, mismatch = false;
  std::map<uint64_t, Call> calls = {};
  std::map<std::tuple<int, int, uint64_t>, Letter> letters = {};  // from, to, number
  std::map<int, std::vector<int>> colors = {};                    // of each split
  std::map<std::pair<int, int>, std::shared_ptr<Shared>> parts = {};
};

std::map<std::string, std::shared_ptr<Shared>>& worlds() {
  static std::map<std::string, std::shared_ptr<Shared>> all;
  return all;
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
  std::shared_ptr<Shared> shared;
  int rank;
  uint64_t calls = 0;
  int splits = 0, under_way = 0;
  std::map<int, uint64_t> sent = {}, received = {};  // by peer
};

}  // namespace hearth::comm::nccl

namespace {

thread_local std::vector<Transfer> transfers;
thread_local std::optional<std::pair<nccl::Communicator, nccl::StreamHandle>> transfers_of;
thread_local bool in_group = false;

template <class T, class Sum = T>
void add(std::byte* sum, const std::byte* more, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, sum + i, sizeof a);
    std::memcpy(&b, more + i, sizeof b);
    a = static_cast<T>(a + b);
    std::memcpy(sum + i, &a, sizeof a);
  }
}

void add_bfloat16(std::byte* sum, const std::byte* more, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 2) {
    uint16_t halves[2];
    std::memcpy(&halves[0], sum + i, 2);
    std::memcpy(&halves[1], more + i, 2);
    const float total = std::bit_cast<float>(static_cast<uint32_t>(halves[0]) << 16) +
                        std::bit_cast<float>(static_cast<uint32_t>(halves[1]) << 16);
    const auto bits = std::bit_cast<uint32_t>(total);
    halves[0] = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    std::memcpy(sum + i, &halves[0], 2);
  }
}

// The sum over ranks of bytes [offset, offset + bytes) of their inputs, in the order of ranks.
Bytes sum_of(const Call& call, size_t offset, size_t bytes) {
  Bytes sum(call.ranks[0].from[0] + offset, call.ranks[0].from[0] + offset + bytes);
  for (size_t r = 1; r < call.ranks.size(); ++r) {
    const std::byte* const more = call.ranks[r].from[0] + offset;
    if (call.what.type == nccl::kFloat32) add<float>(sum.data(), more, bytes);
    if (call.what.type == nccl::kFloat64) add<double>(sum.data(), more, bytes);
    if (call.what.type == nccl::kBfloat16) add_bfloat16(sum.data(), more, bytes);
  }
  return sum;
}

void compute(Call& call) {
  const size_t bytes = call.what.bytes;
  Bytes gathered;
  if (call.what.kind == Kind::kAllGather)
    for (const Ends& ends : call.ranks) gathered.insert(gathered.end(), ends.from[0], ends.from[0] + bytes);
  for (size_t r = 0; r < call.ranks.size(); ++r) {
    Bytes result = gathered;
    if (call.what.kind == Kind::kReduceScatter) result = sum_of(call, r * bytes, bytes);
    if (call.what.kind == Kind::kAllReduce) result = sum_of(call, 0, bytes);
    if (call.what.kind == Kind::kExchange)
      for (const Ends& ends : call.ranks) result.insert(result.end(), ends.from[r], ends.from[r] + ends.from_bytes[r]);
    call.results.push_back(std::move(result));
  }
}

void finish(Call& call, size_t rank) {
  if (call.results.empty()) compute(call);
  const Bytes& result = call.results[rank];
  const std::vector<std::byte*>& to = call.ranks[rank].to;
  const std::vector<size_t>& parts = call.ranks[rank].to_bytes;
  size_t begin = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t piece = parts.empty() ? result.size() / to.size() : std::min(parts[i], result.size() - begin);
    std::copy_n(result.data() + begin, piece, to[i]);  // a rank without a part has no memory for it
    begin += piece;
  }
  ++call.num_done;
}

int enqueue(nccl::Communicator comm, nccl::StreamHandle stream, const What& what, Ends ends) {
  Queues& queues = Queues::all();
  Shared* const shared = comm->shared.get();
  const uint64_t number = comm->calls++;
  const auto rank = static_cast<size_t>(comm->rank);
  bool matches = true;
  queues.locked([&] {
    Call& call = shared->calls[number];
    const auto size = static_cast<size_t>(shared->size);
    if (call.num_called++ == 0) call = {what, std::vector<bool>(size), std::vector<Ends>(size), {}, 1, 0};
    call.ranks[rank] = std::move(ends);
    matches = call.what == what;
    shared->mismatch = shared->mismatch || !matches;
    if (matches) ++comm->under_way;
  });
  if (!matches) return kInvalidUsage;
  queues.enqueue(static_cast<Queue*>(stream), {.run =
                                                   [comm, shared, number, rank] {
                                                     --comm->under_way;
                                                     if (shared->aborted) return;
                                                     Call& call = shared->calls.at(number);
                                                     finish(call, rank);
                                                     if (call.num_done == shared->size) shared->calls.erase(number);
                                                   },
                                               .may_run =
                                                   [shared, number, rank] {
                                                     if (shared->aborted) return true;
                                                     Call& call = shared->calls.at(number);
                                                     call.has_come[rank] = true;
                                                     return call.all_have_come();
                                                   }});
  return nccl::kSuccess;
}

// A transfer outside of a group. A send may end before its receive begins, if the seed says so, or waits for it.
int transfer(nccl::Communicator comm, nccl::StreamHandle stream, const Transfer& t) {
  Queues& queues = Queues::all();
  Shared* const shared = comm->shared.get();
  const auto number = (t.send ? comm->sent : comm->received)[t.peer]++;
  const std::tuple key{t.send ? comm->rank : t.peer, t.send ? t.peer : comm->rank, number};
  bool may_end_early = false;
  queues.locked([&] {
    may_end_early = t.send && queues.draw(2) == 0;
    ++comm->under_way;
  });
  const auto read = [](Letter& letter, size_t bytes) {
    if (!letter.is_read) letter.bytes.assign(letter.from, letter.from + bytes);
    letter.is_read = true;
  };
  queues.enqueue(static_cast<Queue*>(stream),
                 {.run =
                      [=] {
                        --comm->under_way;
                        if (shared->aborted) return;
                        Letter& letter = shared->letters[key];
                        read(letter, t.bytes);
                        if (!t.send) std::memcpy(t.at, letter.bytes.data(), t.bytes);
                        if (std::exchange(letter.one_has_ended, true)) shared->letters.erase(key);
                      },
                  .may_run =
                      [=] {
                        if (shared->aborted) return true;
                        Letter& letter = shared->letters[key];
                        (t.send ? letter.sender_has_come : letter.receiver_has_come) = true;
                        if (t.send) letter.from = t.at;
                        return may_end_early || (letter.sender_has_come && letter.receiver_has_come);
                      }});
  return nccl::kSuccess;
}

int add_transfer(nccl::Communicator comm, nccl::StreamHandle stream, const Transfer& t) {
  if (!in_group) return transfer(comm, stream, t);
  transfers_of = {comm, stream};
  transfers.push_back(t);
  return nccl::kSuccess;
}

void join(Shared* shared) {
  Queues::all().locked([&] { ++shared->joined; });
  Queues::all().run_until([&] { return shared->joined == shared->size || shared->aborted; });
}

const std::byte* in(const void* from) { return static_cast<const std::byte*>(from); }
std::byte* out(void* to) { return static_cast<std::byte*>(to); }

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22809;
  return nccl::kSuccess;
}

int ncclGetUniqueId(nccl::UniqueId* id) {
  static std::atomic<int> number = 0;
  std::snprintf(id->internal, sizeof id->internal, "emulated-%d", ++number);
  return nccl::kSuccess;
}

int ncclCommInitRankConfig(nccl::Communicator* comm, int num_ranks, nccl::UniqueId id, int rank, nccl::Config*) {
  std::shared_ptr<Shared> shared;
  Queues::all().locked([&] {
    std::shared_ptr<Shared>& world = worlds()[id.internal];
    if (!world) world = std::make_shared<Shared>(Shared{id.internal, num_ranks});
    shared = world;
  });
  join(shared.get());
  Queues::all().locked([&] { worlds().erase(id.internal); });
  *comm = new nccl::CommState{shared, rank};
  return nccl::kSuccess;
}

int ncclCommSplit(nccl::Communicator comm, int color, int, nccl::Communicator* part, nccl::Config*) {
  Shared* const shared = comm->shared.get();
  const int number = comm->splits++;
  std::vector<int> colors;
  Queues::all().locked([&] {
    std::vector<int>& all = shared->colors[number];
    all.resize(static_cast<size_t>(shared->size), nccl::kSplitNoColor - 1);
    all[static_cast<size_t>(comm->rank)] = color;
  });
  Queues::all().run_until([&] {
    colors = shared->colors.at(number);
    return shared->aborted || std::count(colors.begin(), colors.end(), nccl::kSplitNoColor - 1) == 0;
  });
  *part = nullptr;
  if (shared->aborted) return kRemoteError;
  if (color == nccl::kSplitNoColor) return nccl::kSuccess;
  const auto size = static_cast<int>(std::count(colors.begin(), colors.end(), color));
  const auto rank = static_cast<int>(std::count(colors.begin(), colors.begin() + comm->rank, color));
  std::shared_ptr<Shared> of_part;
  Queues::all().locked([&] {
    std::shared_ptr<Shared>& made = shared->parts[{number, color}];
    if (!made) made = std::make_shared<Shared>(Shared{shared->name, size});
    of_part = made;
  });
  join(of_part.get());
  *part = new nccl::CommState{of_part, rank};
  return nccl::kSuccess;
}

// As NCCL's: waits for the calls under way.
int ncclCommDestroy(nccl::Communicator comm) {
  Queues::all().run_until([&] { return comm->under_way == 0; });
  delete comm;
  return nccl::kSuccess;
}
int ncclCommAbort(nccl::Communicator comm) {
  Queues::all().locked([&] { comm->shared->aborted = true; });
  return nccl::kSuccess;
}
int ncclCommGetAsyncError(nccl::Communicator comm, int* error) {
  Queues::all().locked([&] {
    *error = comm->shared->mismatch ? kInvalidUsage : comm->shared->aborted ? kRemoteError : nccl::kSuccess;
  });
  return nccl::kSuccess;
}
const char* ncclGetErrorString(int error) { return error == kInvalidUsage ? "invalid usage" : "remote error"; }
const char* ncclGetLastError(nccl::Communicator) { return "calls that do not match"; }

int ncclAllGather(const void* from, void* to, size_t count, int type, nccl::Communicator comm,
                  nccl::StreamHandle stream) {
  return enqueue(comm, stream, {Kind::kAllGather, count * size_of(type), type}, {{in(from)}, {out(to)}});
}
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int, nccl::Communicator comm,
                      nccl::StreamHandle stream) {
  return enqueue(comm, stream, {Kind::kReduceScatter, count * size_of(type), type}, {{in(from)}, {out(to)}});
}
int ncclAllReduce(const void* from, void* to, size_t count, int type, int, nccl::Communicator comm,
                  nccl::StreamHandle stream) {
  return enqueue(comm, stream, {Kind::kAllReduce, count * size_of(type), type}, {{in(from)}, {out(to)}});
}

int ncclSend(const void* from, size_t count, int type, int peer, nccl::Communicator comm, nccl::StreamHandle stream) {
  return add_transfer(comm, stream, {true, out(const_cast<void*>(from)), count * size_of(type), peer});
}
int ncclRecv(void* to, size_t count, int type, int peer, nccl::Communicator comm, nccl::StreamHandle stream) {
  return add_transfer(comm, stream, {false, out(to), count * size_of(type), peer});
}
int ncclGroupStart() {
  transfers.clear();
  in_group = true;
  return nccl::kSuccess;
}
// Each rank has one transfer to and from each, perhaps of nothing: an all-to-all.
int ncclGroupEnd() {
  in_group = false;
  const std::vector<Transfer> all = std::exchange(transfers, {});
  if (all.empty()) return nccl::kSuccess;
  const auto [comm, stream] = *transfers_of;
  const auto size = static_cast<size_t>(comm->shared->size);
  Ends ends{std::vector<const std::byte*>(size), std::vector<std::byte*>(size), std::vector<size_t>(size),
            std::vector<size_t>(size)};
  for (const Transfer& t : all) {
    const auto peer = static_cast<size_t>(t.peer);
    if (t.send) {
      ends.from[peer] = t.at;
      ends.from_bytes[peer] = t.bytes;
    } else {
      ends.to[peer] = t.at;
      ends.to_bytes[peer] = t.bytes;
    }
  }
  return enqueue(comm, stream, {Kind::kExchange, 0, nccl::kUint8}, std::move(ends));
}

}  // extern "C"
