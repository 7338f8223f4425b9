// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_library.h"

#include <dlfcn.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace hearth::comm {
namespace {

constexpr const char* kFix =
    "install NCCL (pip install nvidia-nccl-cu13) or RCCL where the loader finds it, or name its file in "
    "comm.nccl_library";

template <class Function>
void find(void* library, const std::string& name, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, symbol));
  if (function == nullptr)
    throw Error(ExitCode::kHardware, fmt::format("{} has no function {}", name, symbol),
                "it is not NCCL, or an older one than Hearth needs", kFix);
}

// 22809 is 2.28.9; before 2.9, 2804 was 2.8.4.
std::string version_text(int version) {
  return version < 10000 ? fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)
                         : fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

NcclLibrary::NcclLibrary(const Path& named) {
  std::vector<std::string> names = {"libnccl.so.2", "librccl.so.1"}, problems;
  if (!named.empty()) names = {named.string()};
  void* library = nullptr;
  for (const std::string& name : names) {
    library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      name_ = name;
      break;
    }
    problems.emplace_back(::dlerror());
  }
  if (library == nullptr) throw Error(ExitCode::kHardware, "ranks on GPUs need NCCL or RCCL", join(problems), kFix);
#define HEARTH_FIND(name) find(library, name_, "nccl" #name, api_.name)
  HEARTH_FIND(GetVersion);
  HEARTH_FIND(GetUniqueId);
  HEARTH_FIND(CommInitRankConfig);
  HEARTH_FIND(CommSplit);
  HEARTH_FIND(CommDestroy);
  HEARTH_FIND(CommAbort);
  HEARTH_FIND(CommGetAsyncError);
  HEARTH_FIND(GetErrorString);
  HEARTH_FIND(GetLastError);
  HEARTH_FIND(AllGather);
  HEARTH_FIND(ReduceScatter);
  HEARTH_FIND(AllReduce);
  HEARTH_FIND(Send);
  HEARTH_FIND(Recv);
  HEARTH_FIND(GroupStart);
  HEARTH_FIND(GroupEnd);
#undef HEARTH_FIND
  int version = 0;
  check(api_.GetVersion(&version), "ncclGetVersion");
  if (version < nccl::kOldestVersion)
    throw Error(ExitCode::kHardware, fmt::format("{} is version {}", name_, version_text(version)),
                fmt::format("Hearth needs {} or newer", version_text(nccl::kOldestVersion)), kFix);
  name_ += ", version " + version_text(version);
}

void NcclLibrary::check(int result, const char* call, nccl::Communicator comm) const {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return;
  throw Error(ExitCode::kHardware, fmt::format("{} fails: {}", call, api_.GetErrorString(result)),
              fmt::format("{}: {}", name_, api_.GetLastError(comm)),
              "see the output with NCCL_DEBUG=INFO; the fabric, its plugin or a GPU may be at fault");
}

}  // namespace hearth::comm
