#include "comm/join.h"

#include <unistd.h>

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "comm/host_group.h"
#include "comm/shared_pages.h"

namespace hearth::comm {

namespace {

// Equal for processes of one host, whatever its name is in their containers.
std::string host_identity() { return read_file("/proc/sys/kernel/random/boot_id"); }

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

void check_one_host(Control& control) {
  const std::vector<std::string> hosts = control.all_gather("the hosts", host_identity());
  const std::vector<std::string> names = control.all_gather("the hosts' names", host_name());
  for (size_t r = 1; r < hosts.size(); ++r) {
    if (hosts[r] == hosts[0]) continue;
    throw user_error(fmt::format("rank 0 is on host {}, rank {} on host {}", names[0], r, names[r]),
                     "ranks on several hosts need NCCL or MPI, which Hearth does not use yet",
                     "start all ranks on one host");
  }
}

}  // namespace

int run_as_rank(const Membership& membership, const std::function<int(Control&, const MakeGroup&)>& body) {
  ProcessControl control(membership);
  std::unique_ptr<SharedPages> pages;
  std::optional<HostMemory> memory;
  const MakeGroup make_group = [&](double timeout_s) {
    check_one_host(control);
    pages = share_pages(control, static_cast<size_t>(HostMemory::bytes_for(control.size())));
    memory.emplace(pages->data(), control.size());
    return host_group(*memory, control, timeout_s);
  };
  try {
    const int code = body(control, make_group);
    control.barrier("the end");
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
