// SPDX-License-Identifier: Apache-2.0
#include "train/libtorch_error.h"

#include <string>

namespace hearth::train {

Error from_libtorch(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  if (text.find("can't allocate memory") != std::string::npos || text.find("out of memory") != std::string::npos)
    return {ExitCode::kHardware, "not enough memory", text,
            "make training.local_batch_size, training.seq_len or the model smaller (gradients accumulate to the same "
            "training.global_batch_size)"};
  // A GPU is asynchronous, so a later call may report the failure of an earlier one.
  if (text.find("CUDA error") != std::string::npos || text.find("HIP error") != std::string::npos)
    return {
        ExitCode::kHardware, "the GPU failed", text,
        "see the driver's log (dmesg, nvidia-smi -q); the run goes on from its last checkpoint. If the same step fails "
        "again on another GPU, please report it"};
  return {ExitCode::kBug, "LibTorch refused an operation; this is a bug in Hearth", text,
          "please report it with the command line"};
}

}  // namespace hearth::train
