// SPDX-License-Identifier: Apache-2.0
// Hearth's declarations of NCCL against NCCL's own header, and the library that pip installs.
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#define HEARTH_HAS_NCCL_HEADER 1
#endif
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "comm/nccl_api.h"
#include "support/same_call.h"

namespace hearth::comm {
namespace {

#ifdef HEARTH_HAS_NCCL_HEADER

#define HEARTH_SAME(name) \
  static_assert(test::SameCall<decltype(nccl::Api::name), std::add_pointer_t<decltype(nccl##name)>>::value, #name)
HEARTH_SAME(GetVersion);
HEARTH_SAME(GetUniqueId);
HEARTH_SAME(CommInitRankConfig);
HEARTH_SAME(CommSplit);
HEARTH_SAME(CommDestroy);
HEARTH_SAME(CommAbort);
HEARTH_SAME(CommGetAsyncError);
HEARTH_SAME(GetErrorString);
HEARTH_SAME(GetLastError);
HEARTH_SAME(AllGather);
HEARTH_SAME(ReduceScatter);
HEARTH_SAME(AllReduce);
HEARTH_SAME(Send);
HEARTH_SAME(Recv);
HEARTH_SAME(GroupStart);
HEARTH_SAME(GroupEnd);

static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(nccl::kSuccess == ncclSuccess && nccl::kInProgress == ncclInProgress);
static_assert(nccl::kRemoteError == ncclRemoteError);
static_assert(nccl::kUint8 == ncclUint8 && nccl::kFloat32 == ncclFloat32 && nccl::kFloat64 == ncclFloat64);
static_assert(nccl::kBfloat16 == ncclBfloat16 && nccl::kSum == ncclSum);
static_assert(nccl::kSplitNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(nccl::kOldestVersion == NCCL_VERSION(2, 18, 0));

#define HEARTH_SAME_PLACE(member) \
  static_assert(offsetof(nccl::Config, member) == offsetof(ncclConfig_t, member), #member)
HEARTH_SAME_PLACE(size);
HEARTH_SAME_PLACE(magic);
HEARTH_SAME_PLACE(version);
HEARTH_SAME_PLACE(blocking);
HEARTH_SAME_PLACE(cgaClusterSize);
HEARTH_SAME_PLACE(minCTAs);
HEARTH_SAME_PLACE(maxCTAs);
HEARTH_SAME_PLACE(netName);
HEARTH_SAME_PLACE(splitShare);

// NCCL refuses a configuration whose magic it does not know.
TEST(NcclHeader, HasTheConfigurationAsHearthFillsIt) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const nccl::Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.maxCTAs, theirs.maxCTAs);
  EXPECT_EQ(ours.netName, theirs.netName);
  EXPECT_EQ(ours.splitShare, theirs.splitShare);
  EXPECT_LE(ours.size, theirs.size);
  EXPECT_LE(ours.version, theirs.version);
}

TEST(NcclHeader, HasTheFunctionsAsHearthDeclaresThem) {}  // the assertions above

#else

TEST(NcclHeader, HasTheFunctionsAsHearthDeclaresThem) { GTEST_SKIP() << "nccl.h or cuda_runtime.h is not installed"; }

#endif

}  // namespace
}  // namespace hearth::comm
