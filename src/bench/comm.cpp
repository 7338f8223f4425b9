// SPDX-License-Identifier: Apache-2.0
#include "bench/comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "base/quantity.h"
#include "metrics/throughput.h"
#include "ops/tensor.h"
#include "run/compute_device.h"

namespace hearth::bench {
namespace {

using metrics::monotonic_seconds;

constexpr double kTimeout_s = 60;
constexpr int64_t kMessageBytes = 64;  // more than the votes of a training's step
constexpr int kMessages = 200;

// The median over `times` calls of the slowest rank's time.
double median_s(comm::Control& control, int times, const std::function<void()>& call) {
  std::vector<double> taken;
  for (int i = 0; i < times + 2; ++i) {  // two to warm up
    control.barrier("a measurement");
    const double start_s = monotonic_seconds();
    call();
    taken.push_back(monotonic_seconds() - start_s);
  }
  taken.erase(taken.begin(), taken.begin() + 2);
  const std::string mine(reinterpret_cast<const char*>(taken.data()), taken.size() * sizeof(double));
  for (const std::string& of_rank : control.all_gather("the times", mine)) {
    const auto* theirs = reinterpret_cast<const double*>(of_rank.data());
    for (size_t i = 0; i < taken.size(); ++i) taken[i] = std::max(taken[i], theirs[i]);
  }
  std::nth_element(taken.begin(), taken.begin() + times / 2, taken.end());
  return taken[static_cast<size_t>(times / 2)];
}

struct Rate {
  const char* operation;
  double seconds;
};

std::vector<Rate> measure(comm::Group& group, const config::BenchCommOptions& options, at::Device device) {
  const int64_t R = group.size(), n = (options.mib << 20) / 4 / R;
  const at::Tensor full = ops::zeros({R * n}, DType::kFloat32, device);
  const at::Tensor other = ops::zeros({R * n}, DType::kFloat32, device);
  const at::Tensor shard = full.narrow(0, group.rank() * n, n);
  const auto time_of = [&](const char* operation, const std::function<void()>& call) {
    const auto finished = [&] {
      call();
      if (!device.is_cpu()) ops::to_doubles(other.narrow(0, 0, 1));  // a GPU's work is only enqueued
    };
    return Rate{operation, median_s(group.control(), static_cast<int>(options.repeats), finished)};
  };
  return {time_of("all_gather", [&] { group.all_gather(full, shard); }),
          time_of("reduce_scatter", [&] { group.reduce_scatter(shard, full); }),
          time_of("all_reduce", [&] { group.all_reduce(full); }),
          time_of("all_to_all", [&] { group.all_to_all(other, full); }),
          time_of("memcpy", [&] { ops::copy_(other, full); })};
}

}  // namespace

ExitCode run_bench_comm(const config::BenchCommOptions& options, comm::Control& control,
                        const comm::MakeGroup& make_group, double began_s) {
  const at::Device device = run::open_rank_device(control, options.device);
  const auto group = make_group({.backend = *config::find_choice<config::CommBackend>(options.backend),
                                 .nccl_library = options.library,
                                 .train_timeout_seconds = kTimeout_s},
                                {.device = device, .ordered = false});
  control.barrier("the start");
  const double start_s = monotonic_seconds() - began_s;
  const std::string message(kMessageBytes, 'x');
  const double message_s =
      median_s(control, kMessages, [&] { control.reduce("a message", message, comm::merge_first); });
  const std::vector<Rate> measured = measure(*group, options, device);
  if (control.rank() != 0) return ExitCode::kDone;
  const double bytes = static_cast<double>(options.mib << 20);
  if (options.json) {
    fmt::print("{{\"ranks\": {}, \"start_s\": {}, \"message_s\": {}, \"bytes\": {}", control.size(), start_s, message_s,
               bytes);
    for (const Rate& m : measured) fmt::print(", \"{}_s\": {}", m.operation, m.seconds);
    fmt::print("}}\n");
  } else {
    fmt::print("{} started in {}\n", counted(control.size(), "rank"), format_duration(start_s));
    fmt::print("a vote, {} bytes of each rank: {:.3f} ms\n", kMessageBytes, 1e3 * message_s);
    fmt::print("float32 tensors of {} MiB, the slowest rank's median of {} calls:\n", options.mib, options.repeats);
    for (const Rate& m : measured)
      fmt::print("  {:15} {:8.2f} ms  {:6.2f} GB/s\n", m.operation, 1e3 * m.seconds, bytes / m.seconds / 1e9);
  }
  std::fflush(stdout);
  return ExitCode::kDone;
}

}  // namespace hearth::bench
