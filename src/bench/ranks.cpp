// SPDX-License-Identifier: Apache-2.0
#include "bench/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/quantity.h"
#include "bench/rank_items.h"
#include "checkpoint/save.h"
#include "checkpoint/verify.h"
#include "comm/notes/note_tree.h"
#include "comm/process_control.h"
#include "metrics/throughput.h"
#include "train/step_note.h"

namespace hearth::bench {
namespace {

using metrics::monotonic_seconds;

constexpr int64_t kRanksOfAProcess = 256;
constexpr int64_t kMicroBatches = 8;
constexpr double kHop_s = 50e-6;  // assumed: from one host's program to another's
constexpr int64_t kStep = 100;
constexpr double kPatience_s = 600;

// What the ranks measure, in memory that all processes share.
struct Measured {
  double start_s = 0;
  double note_s = 0;                                    // median of a call
  double note_cpu_s[3] = {};                            // of a call: rank 0, a rank that collects, another one
  double note_sent = 0, note_received = 0;              // bytes of rank 0 in a call
  double gather_s = 0, gather_received = 0;             // lists of items
  double commit_s = 0, metadata = 0, manifest = 0;      // bytes of the two files
  double open_s = 0, frame_s = 0;                       // of each rank; of rank 0 alone
  double bits_s = 0, bits_sent = 0, bits_received = 0;  // which items are checked
  double items = 0, memory = 0;                         // memory: the most of rank 0
  double killed_at_s = 0;
};

double cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// One rank's part of the trial.
class Thin {
 public:
  Thin(comm::Control& control, Measured& measured, const Path& folder, int64_t repeats)
      : control_(control), measured_(measured), folder_(folder), repeats_(repeats) {}

  void agree_about_steps(int64_t part) {
    std::vector<double> taken;
    const comm::Traffic before = comm::socket_traffic();
    const double cpu_before_s = cpu_s();
    for (int64_t i = 0; i < repeats_; ++i) {
      const double begin_s = monotonic_seconds();
      const train::StepNote mine{.counts =
                                     std::vector<double>(kMicroBatches, 0.1 * static_cast<double>(control_.rank()))};
      const comm::Posted posted =
          control_.post("the notes about a step", train::to_bytes(mine, control_.rank()), train::merge_step_notes);
      const train::StepNote all = train::agreed_note(control_.collect(posted), control_.size());
      HEARTH_CHECK(all.counts.size() == kMicroBatches, "{} counts", all.counts.size());
      taken.push_back(monotonic_seconds() - begin_s);
    }
    const double cpu_of_call_s = (cpu_s() - cpu_before_s) / static_cast<double>(repeats_);
    if (control_.rank() == part) measured_.note_cpu_s[1] = cpu_of_call_s;
    if (control_.rank() == control_.size() - 1) measured_.note_cpu_s[2] = cpu_of_call_s;
    if (control_.rank() != 0) return;
    const comm::Traffic after = comm::socket_traffic();
    std::nth_element(taken.begin(), taken.begin() + repeats_ / 2, taken.end());
    measured_.note_s = taken[static_cast<size_t>(repeats_ / 2)];
    measured_.note_cpu_s[0] = cpu_of_call_s;
    measured_.note_sent = static_cast<double>(after.sent - before.sent) / static_cast<double>(repeats_);
    measured_.note_received = static_cast<double>(after.received - before.received) / static_cast<double>(repeats_);
  }

  void save() {
    const Path temporary = checkpoint::temporary_folder(folder_, kStep);
    if (control_.rank() == 0) checkpoint::begin_save(temporary);
    control_.barrier("the beginning of a save");
    const std::string list = write_empty_items(temporary, control_.rank(), control_.size());
    control_.barrier("the files of the ranks");
    const comm::Traffic before = comm::socket_traffic();
    const double begin_s = monotonic_seconds();
    const std::vector<std::string> lists = control_.gather("the items of a checkpoint", list);
    if (control_.rank() == 0) {
      const double gathered_s = monotonic_seconds();
      checkpoint::Manifest manifest;
      manifest.step = kStep;
      manifest.tokenizer = "bytes";
      manifest.ranks = control_.size();
      checkpoint::stamp(manifest);
      const Path final_folder = checkpoint::step_folder(folder_, kStep);
      checkpoint::commit(temporary, final_folder, lists, manifest);
      measured_.gather_s = gathered_s - begin_s;
      measured_.gather_received = static_cast<double>(comm::socket_traffic().received - before.received);
      measured_.commit_s = monotonic_seconds() - gathered_s;
      const auto bytes_of = [&](const char* name) {
        return static_cast<double>(File::open_read(final_folder / name).size_bytes());
      };
      measured_.metadata = bytes_of(checkpoint::kMetadataFile);
      measured_.manifest = bytes_of(checkpoint::kManifestFile);
    }
    control_.barrier("the end of a save");
  }

  // Only rank 0 reads the lists: the others would do the same at the same time, on cores of their own.
  void load() {
    std::string bits;
    if (control_.rank() == 0) {
      const Path folder = checkpoint::step_folder(folder_, kStep);
      double begin_s = monotonic_seconds();
      HEARTH_CHECK(checkpoint::verify_frame(folder).problems.empty(), "the checkpoint is not whole");
      measured_.frame_s = monotonic_seconds() - begin_s;
      begin_s = monotonic_seconds();
      const checkpoint::Reader reader = checkpoint::Reader::open(folder, checkpoint::FileSizes::kWhenOpened);
      measured_.open_s = monotonic_seconds() - begin_s;
      bits = checkpoint::checked_items(reader);
      measured_.items = static_cast<double>(reader.manifest().items.size());
      rusage used{};
      ::getrusage(RUSAGE_SELF, &used);
      measured_.memory = 1024 * static_cast<double>(used.ru_maxrss);
    }
    bits.resize(static_cast<size_t>(std::stoll(control_.broadcast("a size", std::to_string(bits.size())))));
    control_.barrier("the reading");
    const comm::Traffic before = comm::socket_traffic();
    const double begin_s = monotonic_seconds();
    control_.reduce("the checked items", bits, comm::merge_bits);
    const double taken_s = monotonic_seconds() - begin_s;
    control_.barrier("all has been sent");
    if (control_.rank() != 0) return;
    measured_.bits_s = taken_s;
    measured_.bits_sent = static_cast<double>(comm::socket_traffic().sent - before.sent);
    measured_.bits_received = static_cast<double>(comm::socket_traffic().received - before.received);
  }

  // The last rank is killed; the others end with the exit code of a failure.
  [[noreturn]] void die() {
    control_.barrier("all is measured");
    if (control_.rank() == control_.size() - 1) {
      measured_.killed_at_s = monotonic_seconds();
      ::raise(SIGKILL);
    }
    control_.barrier("what never comes");
    std::_Exit(static_cast<int>(ExitCode::kBug));
  }

 private:
  comm::Control& control_;
  Measured& measured_;
  const Path folder_;
  const int64_t repeats_;
};

class Trial {
 public:
  Trial(const config::BenchRanksOptions& options, Path folder, Measured& measured)
      : options_(options), folder_(std::move(folder)), measured_(measured) {}

  // Seconds from the death of the last rank to the end of the last process.
  double run() {
    const int64_t N = options_.ranks;
    std::vector<pid_t> processes;
    const auto start = [&](std::vector<int64_t> ranks) {
      const pid_t process = ::fork();
      if (process < 0) throw system_error("cannot start a process", errno);
      if (process == 0) be(ranks);
      processes.push_back(process);
    };
    const int64_t part = comm::NoteTree::usual_part(N), collector = part < N ? part : 1;
    start({0});
    start({collector});
    std::vector<int64_t> others;
    for (int64_t r = 1; r < N - 1; ++r) {
      if (r == collector) continue;
      others.push_back(r);
      if (std::ssize(others) < kRanksOfAProcess) continue;
      start(others);
      others.clear();
    }
    if (!others.empty()) start(others);
    start({N - 1});
    for (const pid_t process : processes) ::waitpid(process, nullptr, 0);
    return monotonic_seconds() - measured_.killed_at_s;
  }

 private:
  [[noreturn]] void be(const std::vector<int64_t>& ranks) {
    const int errors = ::open((folder_ / "errors").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (errors >= 0) ::dup2(errors, STDERR_FILENO);
    std::vector<std::thread> threads;
    for (const int64_t rank : ranks) threads.emplace_back([this, rank] { be_rank(rank); });
    for (std::thread& thread : threads) thread.join();
    std::_Exit(static_cast<int>(ExitCode::kBug));
  }

  void be_rank(int64_t rank) {
    try {
      const std::string name = fmt::format("hearth-bench-ranks-{}", ::getppid());
      comm::ProcessControl control({.rank = rank,
                                    .size = options_.ranks,
                                    .address = "unix:" + name,
                                    .key = name,
                                    .join_timeout_s = kPatience_s,
                                    .timeout_s = kPatience_s});
      control.barrier("the start");
      if (rank == 0) measured_.start_s = monotonic_seconds() - began_s_;
      Thin thin(control, measured_, folder_, options_.repeats);
      const int64_t part = comm::NoteTree::usual_part(options_.ranks);
      thin.agree_about_steps(part < options_.ranks ? part : 1);
      thin.save();
      thin.load();
      thin.die();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", static_cast<int>(rank), error.what());
      std::_Exit(static_cast<int>(ExitCode::kBug));
    } catch (const comm::Aborted&) {
      std::_Exit(static_cast<int>(ExitCode::kHardware));
    }
  }

  const config::BenchRanksOptions& options_;
  const Path folder_;
  Measured& measured_;
  const double began_s_ = monotonic_seconds();
};

void print(const config::BenchRanksOptions& options, const Measured& m, double death_s) {
  const double apart_s = m.note_cpu_s[0] + 2 * m.note_cpu_s[1] + m.note_cpu_s[2] + 4 * kHop_s;
  if (options.json) {
    fmt::print(
        "{{\"ranks\": {}, \"start_s\": {}, \"note_s\": {}, \"note_cpu_s\": [{}, {}, {}], \"note_apart_s\": {}, "
        "\"note_sent\": {}, \"note_received\": {}, \"items\": {}, \"gather_s\": {}, \"gather_received\": {}, "
        "\"commit_s\": {}, \"metadata_bytes\": {}, \"manifest_bytes\": {}, \"frame_s\": {}, \"open_s\": {}, "
        "\"bits_s\": {}, \"bits_sent\": {}, \"bits_received\": {}, \"rank_0_memory_bytes\": {}, \"death_s\": {}}}\n",
        options.ranks, m.start_s, m.note_s, m.note_cpu_s[0], m.note_cpu_s[1], m.note_cpu_s[2], apart_s, m.note_sent,
        m.note_received, m.items, m.gather_s, m.gather_received, m.commit_s, m.metadata, m.manifest, m.frame_s,
        m.open_s, m.bits_s, m.bits_sent, m.bits_received, m.memory, death_s);
    return;
  }
  const auto ms = [](double seconds) { return fmt::format("{:.2f} ms", 1e3 * seconds); };
  fmt::print("{} ranks without tensors, on this host\n", options.ranks);
  fmt::print("  start        all have met after {}\n", format_duration(m.start_s));
  fmt::print("  a step       notes of all, merged, at all: {}; rank 0 sends {} and receives {}\n", ms(m.note_s),
             format_bytes(static_cast<int64_t>(m.note_sent)), format_bytes(static_cast<int64_t>(m.note_received)));
  fmt::print("               CPU time of rank 0 {}, of a rank that collects {}, of another {}\n", ms(m.note_cpu_s[0]),
             ms(m.note_cpu_s[1]), ms(m.note_cpu_s[2]));
  fmt::print("               on hosts of their own, with four hops of {:.0f} us: {}\n", 1e6 * kHop_s, ms(apart_s));
  fmt::print("  a save       {:.0f} items of Llama 3 8B; rank 0 receives their lists, {}, in {}\n", m.items,
             format_bytes(static_cast<int64_t>(m.gather_received)), format_duration(m.gather_s));
  fmt::print("               rank 0 completes it in {}: .metadata {}, hearth.json {}\n", format_duration(m.commit_s),
             format_bytes(static_cast<int64_t>(m.metadata)), format_bytes(static_cast<int64_t>(m.manifest)));
  fmt::print("  a load       rank 0 checks all but the items in {}; each rank opens it in {}; rank 0's memory {}\n",
             format_duration(m.frame_s), format_duration(m.open_s), format_bytes(static_cast<int64_t>(m.memory)));
  fmt::print("               which items are checked, of all, at all: {}; rank 0 sends {} and receives {}\n",
             ms(m.bits_s), format_bytes(static_cast<int64_t>(m.bits_sent)),
             format_bytes(static_cast<int64_t>(m.bits_received)));
  fmt::print("  a death      all processes have ended after {}\n", format_duration(death_s));
}

}  // namespace

ExitCode run_bench_ranks(const config::BenchRanksOptions& options) {
  std::string name = (std::filesystem::temp_directory_path() / "hearth-ranks-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw system_error(fmt::format("cannot make {}", name), errno);
  const Path folder = name;
  void* const shared = ::mmap(nullptr, sizeof(Measured), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw system_error("cannot map shared memory", errno);
  auto& measured = *new (shared) Measured;
  const double death_s = Trial(options, folder, measured).run();
  const std::string errors = path_exists(folder / "errors") ? read_file(folder / "errors") : "";
  remove_tree(folder);
  const std::string expected = fmt::format("rank {} (", options.ranks - 1);
  if (measured.killed_at_s == 0 || errors.find(expected) == std::string::npos ||
      errors.find("has died") == std::string::npos)
    throw Error(ExitCode::kHardware, "the ranks ended early", errors.empty() ? "without a message" : errors,
                "`ulimit -n`, `ulimit -u` and the memory must allow two threads and four files for each rank");
  print(options, measured, death_s);
  std::fflush(stdout);
  return ExitCode::kDone;
}

}  // namespace hearth::bench
