// SPDX-License-Identifier: Apache-2.0
// A file of TensorBoard's events. Sources of the format: TensorFlow's tfrecord (a frame has the length, its masked
// CRC32C, the data and their masked CRC32C) and the messages Event and Summary of TensorBoard's event.proto and
// summary.proto.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth::metrics {

struct ScalarEvent {
  std::string tag;  // "loss_metrics/global_avg_loss"
  double value;     // stored as float32
};

// The bytes of a frame around `data`.
std::string event_frame(std::string_view data);

// CRC-32C (Castagnoli), as of RFC 3720.
uint32_t crc32c(std::string_view data);

// Whether `folder` has a file that TensorBoard would read.
bool has_event_files(const Path& folder);

// One file, of one start of a training. TensorBoard reads the files of a folder in the order of their names, as one
// run. Times are seconds since 1970.
class EventFile {
 public:
  // Makes `folder` and a new file in it, whose name sorts behind all existing files.
  EventFile(const Path& folder, double time);
  void scalars(double time, int64_t step, std::span<const ScalarEvent> scalars);
  void text(double time, int64_t step, std::string_view tag, std::string_view text);  // Markdown
  // Makes TensorBoard forget the earlier events of step `step` and later steps.
  void restart(double time, int64_t step);
  void sync() { file_.sync(); }

 private:
  File file_;
};

}  // namespace hearth::metrics
