// SPDX-License-Identifier: Apache-2.0
// NCCL's functions, as far as Hearth calls them. RCCL has the same. The library is loaded when ranks on GPUs start
// (comm/nccl_library.h), so a build needs neither; tests/comm/nccl_header_test.cpp compares these declarations with
// NCCL's header. Names without the prefix "nccl". Source: nccl.h of NCCL 2.18 to 2.28.
#pragma once

#include <climits>
#include <cstddef>

namespace hearth::comm::nccl {

struct UniqueId {
  char internal[128];
};

using Communicator = struct CommState*;
using StreamHandle = void*;  // cudaStream_t, hipStream_t; null: the default stream

inline constexpr int kSuccess = 0, kRemoteError = 6, kInProgress = 7;
inline constexpr int kUint8 = 1, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;  // ncclDataType_t
inline constexpr int kSum = 0;                                               // ncclRedOp_t
inline constexpr int kSplitNoColor = -1;
inline constexpr int kOldestVersion = 21800;  // has CommSplit

// ncclConfig_t as it was in 2.18. `size` and `version` tell newer libraries, whose struct is longer, which members
// exist. Members that are not set keep NCCL's defaults.
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef, version = kOldestVersion;
  int blocking = INT_MIN, cgaClusterSize = INT_MIN, minCTAs = INT_MIN, maxCTAs = INT_MIN;
  const char* netName = nullptr;
  int splitShare = INT_MIN;  // 1: parts that are split from this communicator use its buffers and connections
  int unused = INT_MIN;
};

// Results are kSuccess, or an error for GetErrorString.
struct Api {
  int (*GetVersion)(int* version);
  int (*GetUniqueId)(UniqueId* id);
  int (*CommInitRankConfig)(Communicator* comm, int num_ranks, UniqueId id, int rank, Config* config);
  int (*CommSplit)(Communicator comm, int color, int key, Communicator* part, Config* config);
  int (*CommDestroy)(Communicator comm);
  int (*CommAbort)(Communicator comm);
  int (*CommGetAsyncError)(Communicator comm, int* error);
  const char* (*GetErrorString)(int error);
  const char* (*GetLastError)(Communicator comm);
  int (*AllGather)(const void* from, void* to, size_t from_count, int type, Communicator comm, StreamHandle stream);
  int (*ReduceScatter)(const void* from, void* to, size_t to_count, int type, int operation, Communicator comm,
                       StreamHandle stream);
  int (*AllReduce)(const void* from, void* to, size_t count, int type, int operation, Communicator comm,
                   StreamHandle stream);
  int (*Send)(const void* from, size_t count, int type, int peer, Communicator comm, StreamHandle stream);
  int (*Recv)(void* to, size_t count, int type, int peer, Communicator comm, StreamHandle stream);
  int (*GroupStart)();
  int (*GroupEnd)();
};

}  // namespace hearth::comm::nccl
