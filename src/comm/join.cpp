// SPDX-License-Identifier: Apache-2.0
#include "comm/join.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/program.h"
#include "base/text.h"
#include "comm/host_group.h"
#include "comm/mpi_group.h"
#include "comm/nccl_group.h"
#include "comm/notes/frames.h"
#include "comm/shared_pages.h"
#include "machine/cores.h"
#include "trace/flight_recorder.h"

namespace hearth::comm {

namespace {

// Equal for processes of one host, whatever its name is in their containers.
std::string host_identity() { return read_file("/proc/sys/kernel/random/boot_id"); }

// The host of a rank.
struct HostOf {
  std::string identity, name, rank;
};

std::vector<HostOf> hosts_in(std::string_view bytes) {
  std::vector<HostOf> hosts;
  const std::vector<std::string> parts = parts_of(bytes);
  for (size_t i = 0; i + 2 < parts.size(); i += 3) hosts.push_back({parts[i], parts[i + 1], parts[i + 2]});
  return hosts;
}

// Keeps the first rank, and the first one on another host than that.
void merge_hosts(std::string& lower, std::string_view upper) {
  const std::vector<HostOf> known = hosts_in(lower);
  if (known.size() > 1) return;
  for (const HostOf& host : hosts_in(upper)) {
    if (host.identity == known.front().identity) continue;
    lower += parts_as_bytes(host.identity, host.name, host.rank);
    return;
  }
}

// The first rank of all, and the first one on another host, if there is one. Collective.
std::vector<HostOf> first_hosts(Control& control) {
  return hosts_in(control.reduce(
      "the hosts", parts_as_bytes(host_identity(), host_name(), std::to_string(control.rank())), merge_hosts));
}

void check_one_host(const std::vector<HostOf>& hosts) {
  if (hosts.size() > 1)
    throw user_error(
        fmt::format("rank 0 is on host {}, rank {} on host {}", hosts[0].name, hosts[1].rank, hosts[1].name),
        "comm.backend = \"host\" moves tensors through one host's memory",
        "remove comm.backend, or start all ranks on one host")
        .about("comm.backend");
}

}  // namespace

LocalPlace local_place(Control& control) {
  const Hash128 hash = xxh3_128(host_identity() + host_name());
  const std::string mine(reinterpret_cast<const char*>(&hash), sizeof hash);
  const std::string all = control.reduce("the hosts", mine, merge_lists);
  LocalPlace place{.rank = 0, .size = 0};
  for (int64_t r = 0; r < control.size(); ++r) {
    if (all.compare(static_cast<size_t>(r) * mine.size(), mine.size(), mine) != 0) continue;
    ++place.size;
    if (r < control.rank()) ++place.rank;
  }
  return place;
}

int64_t num_cores(Control& control) {
  const std::string mine = parts_as_bytes(host_identity() + host_name(), machine::core_list());
  std::set<std::pair<std::string, std::string>> cores;  // host and number
  for (const std::string& bytes : control.gather("the cores of all hosts", mine)) {
    const std::vector<std::string> host_and_list = parts_of(bytes);
    for (const std::string& core : split(host_and_list.at(1), ',')) cores.emplace(host_and_list.at(0), core);
  }
  return std::ssize(cores);
}

TransferNeeds transfers_of(const config::RunConfig& config, at::Device device) {
  return {device, config.numerics.reproducible, config.parallelism.pipeline_parallel_degree > 1};
}

int run_as_rank(const Membership& membership, const std::function<int(Control&, const MakeGroup&)>& body) {
  ProcessControl control(membership);
  std::unique_ptr<SharedPages> pages;
  std::optional<HostMemory> memory;
  const auto watch = [&control](std::string_view call) {
    return std::make_shared<ProcessControl::Watched>(control, call);
  };
  const MakeGroup make_group = [&](const config::Comm& options, const TransferNeeds& transfers) {
    const auto timeout_s = [&control, of_steps = options.train_timeout_seconds] { return control.timeout_s(of_steps); };
    const auto sign_s = [&control] { return control.last_sign_s(); };
    const auto hang = [&control](const Error& error) { control.report_hang(error); };
    if (options.backend == config::CommBackend::kNccl || !transfers.device.is_cpu()) {
      const ProcessControl::Watched watched(control, "NCCL's start");
      return nccl_group(control, {.library = options.nccl_library,
                                  .device = transfers.device,
                                  .ordered = transfers.ordered,
                                  .splits_apart = transfers.splits_apart,
                                  .timeout_s = timeout_s,
                                  .fail = [&control](const Error& error) { control.fail(error); },
                                  .sign_s = sign_s,
                                  .hang = hang});
    }
    const std::vector<HostOf> hosts = first_hosts(control);
    const bool mpi = options.backend == config::CommBackend::kMpi ||
                     (options.backend == config::CommBackend::kAuto && hosts.size() > 1);
    if (mpi)
      return mpi_group(
          control,
          {.object = options.mpi_library, .timeout_s = timeout_s, .sign_s = sign_s, .hang = hang, .watch = watch});
    check_one_host(hosts);
    pages = share_pages(control, static_cast<size_t>(HostMemory::bytes_for(control.size())));
    memory.emplace(pages->data(), control.size());
    return host_group(*memory, control, {timeout_s, sign_s}, hang);
  };
  try {
    const int code = body(control, make_group);
    control.barrier("the end");
    trace::end_flight();
    end_mpi(watch);
    return code;
  } catch (const Aborted&) {
    control.wait_for_end();  // the rank that failed says why
  } catch (const Error& error) {
    control.fail(error);
  } catch (const std::exception& error) {
    control.fail(Error(ExitCode::kBug, error.what(), "an internal error; this is a bug in Hearth",
                       "please report it with the command line"));
  }
}

}  // namespace hearth::comm
