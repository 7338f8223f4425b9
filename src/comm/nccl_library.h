// SPDX-License-Identifier: Apache-2.0
// NCCL or RCCL of this machine, loaded on first use.
#pragma once

#include <string>

#include "base/file.h"
#include "comm/nccl_api.h"

namespace hearth::comm {

class NcclLibrary {
 public:
  // `named`: a library's file; empty: libnccl.so.2 or librccl.so.1, where the loader finds it. Throws an Error
  // (kHardware) if no such library loads, or if it is too old or lacks a function. The library stays loaded.
  explicit NcclLibrary(const Path& named);

  const nccl::Api& api() const { return api_; }
  const std::string& name() const { return name_; }  // "libnccl.so.2, version 2.28.9"

  // Throws an Error (kHardware) if `result` is an error of `call`. `comm` may be null.
  void check(int result, const char* call, nccl::Communicator comm = nullptr) const;

 private:
  nccl::Api api_{};
  std::string name_;
};

}  // namespace hearth::comm
