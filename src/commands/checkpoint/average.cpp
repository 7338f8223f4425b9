// SPDX-License-Identifier: Apache-2.0
// `hearth checkpoints average`: the mean of several checkpoints as a new one.
#include "checkpoint/average.h"

#include <charconv>

#include "checkpoint/step_folder.h"
#include "commands/commands.h"
#include "commands/progress_line.h"

namespace hearth::commands {
namespace {

double number_of(std::string_view text, const std::string& given) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0))
    throw user_error(fmt::format("--weights {}: \"{}\" is not a number above 0", given, text), "",
                     "give a number for each checkpoint, such as --weights 1,2,1");
  return value;
}

// One number for each checkpoint; none given: 1 each.
std::vector<double> weights_of(const std::string& given, size_t checkpoints) {
  if (given.empty()) return std::vector<double>(checkpoints, 1.0);
  std::vector<double> weights;
  for (size_t begin = 0; begin <= given.size();) {
    const size_t end = std::min(given.find(',', begin), given.size());
    weights.push_back(number_of(std::string_view(given).substr(begin, end - begin), given));
    begin = end + 1;
  }
  if (weights.size() != checkpoints)
    throw user_error(fmt::format("--weights has {} for {}", counted(std::ssize(weights), "number"),
                                 counted(static_cast<int64_t>(checkpoints), "checkpoint")),
                     "", "give one for each, in the same order");
  return weights;
}

}  // namespace

int checkpoints_average(CommandLine& line) {
  std::vector<Path> folders;
  Path out;
  std::string weights;
  line.positional("CHECKPOINT", &folders, "folder of a checkpoint, on a disk or s3://BUCKET/FOLDER; two or more");
  line.option("--out FOLDER", &out, "the new checkpoint's folder; it has weights only").required();
  line.option("--weights W,W,...", &weights,
              "a number above 0 for each checkpoint, of which the ratios count; none "
              "given: all weigh the same");
  if (!line.parse()) return 0;
  if (checkpoint::parse_step_name(out.filename().string()))
    throw user_error(fmt::format("--out {}: its name is a step's", out.string()),
                     "a run would take the mean for a checkpoint of its own", "give another name");
  const std::vector<double> numbers = weights_of(weights, folders.size());
  std::vector<checkpoint::AverageInput> inputs;
  for (size_t i = 0; i < folders.size(); ++i) inputs.push_back({folders[i], numbers[i]});
  const Stopwatch clock;
  checkpoint::AverageProgress progress;
  const checkpoint::Averaged result =
      with_progress([&] { return bytes_bar("averaging", progress.done_bytes, progress.all_bytes, clock.seconds()); },
                    [&] { return checkpoint::average_checkpoints(inputs, out, progress); });
  fmt::print("{}: the mean of {}, {}, {}, step {}, read back and whole, in {}\n", out.string(),
             counted(std::ssize(inputs), "checkpoint"), counted(result.tensors, "weight"), format_bytes(result.bytes),
             result.step, format_duration(clock.seconds()));
  return 0;
}

}  // namespace hearth::commands
