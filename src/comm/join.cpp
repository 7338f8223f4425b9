#include "comm/join.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "comm/host_group.h"
#include "comm/mpi_group.h"
#include "comm/nccl_group.h"
#include "comm/shared_pages.h"
#include "mesh/flight_recorder.h"

namespace hearth::comm {

namespace {

// Equal for processes of one host, whatever its name is in their containers.
std::string host_identity() { return read_file("/proc/sys/kernel/random/boot_id"); }

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// The first rank on another host than rank 0; 0: all share a host. Collective.
size_t first_rank_elsewhere(Control& control) {
  const std::vector<std::string> hosts = control.all_gather("the hosts", host_identity());
  const auto other =
      std::find_if(hosts.begin(), hosts.end(), [&](const std::string& host) { return host != hosts[0]; });
  return other == hosts.end() ? 0 : static_cast<size_t>(other - hosts.begin());
}

void check_one_host(Control& control, size_t elsewhere) {
  const std::vector<std::string> names = control.all_gather("the hosts' names", host_name());
  if (elsewhere != 0)
    throw user_error(fmt::format("rank 0 is on host {}, rank {} on host {}", names[0], elsewhere, names[elsewhere]),
                     "comm.backend = \"host\" moves tensors through one host's memory",
                     "remove comm.backend, or start all ranks on one host")
        .about("comm.backend");
}

}  // namespace

LocalPlace local_place(Control& control) {
  const std::vector<std::string> hosts = control.all_gather("the hosts", host_identity() + host_name());
  const auto me = hosts.begin() + control.rank();
  return {std::count(hosts.begin(), me, *me), std::count(hosts.begin(), hosts.end(), *me)};
}

Transfers transfers_of(const config::RunConfig& config, at::Device device) {
  return {device, config.numerics.reproducible, config.parallelism.pipeline_parallel_degree > 1};
}

int run_as_rank(const Membership& membership, const std::function<int(Control&, const MakeGroup&)>& body) {
  ProcessControl control(membership);
  std::unique_ptr<SharedPages> pages;
  std::optional<HostMemory> memory;
  const MakeGroup make_group = [&](const config::Comm& options, const Transfers& transfers) {
    if (options.backend == config::CommBackend::kNccl || !transfers.device.is_cpu())
      return nccl_group(control, {.library = options.nccl_library,
                                  .device = transfers.device,
                                  .ordered = transfers.ordered,
                                  .splits_apart = transfers.splits_apart,
                                  .timeout_s = options.train_timeout_seconds,
                                  .fail = [&control](const Error& error) { control.fail(error); }});
    const size_t elsewhere = first_rank_elsewhere(control);
    const bool mpi = options.backend == config::CommBackend::kMpi ||
                     (options.backend == config::CommBackend::kAuto && elsewhere != 0);
    if (mpi) return mpi_group(control, options.mpi_library, options.train_timeout_seconds);
    check_one_host(control, elsewhere);
    pages = share_pages(control, static_cast<size_t>(HostMemory::bytes_for(control.size())));
    memory.emplace(pages->data(), control.size());
    return host_group(*memory, control, options.train_timeout_seconds);
  };
  try {
    const int code = body(control, make_group);
    control.barrier("the end");
    mesh::end_flight();
    end_mpi();
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
