// SPDX-License-Identifier: Apache-2.0
// A file of another program's optimizer: what DeepSpeed and NxD have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "convert/training_state.h"
#include "formats/torch_file.h"

namespace hearth::convert {

class OptimizerFile {
 public:
  const std::string& origin() const { return origin_; }
  // Notes the updates that the moments have seen, and the rate of the next one. training.updates < 0 says that this is
  // the first file. Throws user_error with `fix` if the file does not count them, damaged() if `others` have seen
  // another number.
  void add_counts(TrainingState& training, const char* fix, std::string_view others) const;

 protected:
  // `parts`: the things that have a count each, for errors.
  OptimizerFile(const Path& folder, const std::string& name, std::string_view parts);

  const formats::Pickle& pickle() const { return content_.pickle(); }
  // A number, or a tensor of one float32; with xser the tensor is in a file beside.
  double number(formats::PickleValue value, const char* what) const;
  // AdamW's count of updates, which is one for the whole file.
  void count(formats::PickleValue value);

  const Path folder_;
  const std::string name_, origin_;
  const formats::TorchPickle content_;
  std::optional<double> next_lr_;

 private:
  const std::string_view parts_;
  int64_t updates_ = -1;  // the file does not count them
};

}  // namespace hearth::convert
