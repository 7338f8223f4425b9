// SPDX-License-Identifier: Apache-2.0
#include "runfolder/lease.h"

#include <unistd.h>

#include <charconv>
#include <random>

#include "base/error.h"
#include "base/program.h"
#include "base/quantity.h"

namespace hearth::runfolder {

bool JobOfStart::replaces(const LeaseHolder& holder) const {
  if (job.empty() || holder.job.empty()) return false;
  return (submitted && holder.submitted) || (job == holder.job && requeues > holder.requeues);
}

JobOfStart job_of_start() {
  JobOfStart mine{.job = environment_variable("HEARTH_JOB")};
  mine.submitted = !mine.job.empty();
  if (!mine.submitted) mine.job = environment_variable("SLURM_JOB_ID");
  const std::string requeues = environment_variable("SLURM_RESTART_COUNT");
  std::from_chars(requeues.data(), requeues.data() + requeues.size(), mine.requeues);
  return mine;
}

Lease Lease::take(const Path& run) {
  const Path file = run / kLeaseFile;
  const int64_t number = 1 + newest(run);
  std::random_device random;
  const std::string id = fmt::format("{:08x}{:08x}", random(), random());
  std::string text = fmt::format("start = {}\nid = {}\nhost = {}\nprocess = {}\ntime = {}\n", number, id, host_name(),
                                 ::getpid(), utc_now("%Y-%m-%d %H:%M:%S UTC"));
  const JobOfStart mine = job_of_start();
  if (!mine.job.empty()) text += fmt::format("job = {}\n", mine.job);
  if (mine.requeues > 0) text += fmt::format("requeues = {}\n", mine.requeues);
  if (mine.submitted) text += "submitted = yes\n";
  // A name of its own for the temporary file: two starts may come at the same moment.
  write_file_atomic(file, text + fmt::format("beat = {:012}\n", 0), run / fmt::format("lease.{}.tmp", id));
  return {file, number, id};
}

int64_t Lease::newest(const Path& run) {
  const auto holder = read_lease(run);
  return holder ? holder->start : 0;
}

std::optional<LeaseHolder> Lease::holder() const {
  try {
    return read_lease(file_.parent_path());
  } catch (const Error& e) {
    // A file system that fails for a moment is not the user's fault, whatever its errno.
    throw Error(ExitCode::kHardware, e.message(), e.why(), "the run goes on from its last checkpoint");
  }
}

bool Lease::is_held() const {
  const auto now = holder();
  return now && now->id == id_;
}

void Lease::check() const {
  const auto now = holder();
  if (now && now->id == id_) return;
  throw Error(ExitCode::kHardware,
              !now ? fmt::format("{} is gone or damaged", file_.string())
                   : fmt::format("this training was replaced by another start: on {}, process {}, at {}{}", now->host,
                                 now->process, now->time, now->job.empty() ? "" : ", job " + now->job),
              "only one of them may write checkpoints, and this one is the older",
              fmt::format("leave the newer one alone; {} says which it is", file_.string()));
}

}  // namespace hearth::runfolder
