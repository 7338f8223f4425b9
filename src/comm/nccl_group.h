// SPDX-License-Identifier: Apache-2.0
// Groups whose tensors are on GPUs, through NCCL or RCCL. Calls are enqueued in one communication stream of the device,
// in their order; a Work that is waited for makes the caller's stream wait, not the host.
//
// Sums are NCCL's own: their order depends on the ranks' places in the machine. With `ordered`, data go through
// all_to_all and are added here in pairs of ranks, as comm/group.h says. This is slower, but has the same bits as on
// CPUs.
//
// A call that takes longer than the timeout, or an error that NCCL reports later, ends the training: `fail` is called
// from another thread with an Error that names the oldest call (comm/nccl_watch.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "comm/group.h"

namespace hearth::comm {

struct NcclOptions {
  Path library;                  // comm/nccl_library.h
  at::Device device = at::kCPU;  // a CPU only in tests, which replace NCCL by a library of their own
  bool ordered = false;
  // Whether a group will be split with a stream of its own. If not, all groups share the world's buffers and
  // connections (NCCL's splitShare), which saves GPU memory. Calls of two streams must not use them at the same time.
  bool splits_apart = false;
  std::function<double()> timeout_s = [] { return 600.0; };  // for a call, from its turn on, and for the start
  double abort_s = 30;  // how long NCCL may take to end its calls after a failure; then the process ends
  std::function<void(const Error&)> fail;
  std::function<double()> sign_s{};  // see NcclWatch::Limits
  std::function<void(const Error&)> hang{};
};

// Throws an Error (kHardware) on all ranks if any has no NCCL, or they do not meet. Collective; once a process.
std::unique_ptr<Group> nccl_group(Control& control, const NcclOptions& options);

}  // namespace hearth::comm
