// SPDX-License-Identifier: Apache-2.0
// A target without libFuzzer: FUZZ_NAME MUTATIONS [FOLDER]. Runs the seeds, the files of FOLDER, and MUTATIONS
// mutations of both, the same every time. An input that breaks the reader is written to ./crash-NAME.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "damage.h"
#include "target.h"

namespace {

// What a signal handler may touch.
const std::string* current_input = nullptr;
char crash_file[256];

void save_input(int signal) {
  const int fd = ::open(crash_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const char message[] = "the input that did it: ./";
  const bool saved =
      fd >= 0 && current_input != nullptr && ::write(fd, current_input->data(), current_input->size()) >= 0 &&
      ::write(STDERR_FILENO, message, sizeof message - 1) >= 0 &&
      ::write(STDERR_FILENO, crash_file, __builtin_strlen(crash_file)) >= 0 && ::write(STDERR_FILENO, "\n", 1) >= 0;
  static_cast<void>(saved);
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void run_one(const std::string& input) {
  current_input = &input;
  hearth::fuzz::run(input);  // an exception ends in SIGABRT
}

// The peak memory of this process; nothing under the address sanitizer, which keeps freed memory to find its use.
int64_t peak_memory_bytes() {
#ifdef __SANITIZE_ADDRESS__
  return 0;
#else
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MUTATIONS [FOLDER]\n", argv[0]);
    return 2;
  }
  std::snprintf(crash_file, sizeof crash_file, "crash-%s", hearth::Path(argv[0]).filename().c_str());
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, save_input);

  std::vector<std::string> inputs = hearth::fuzz::seeds();
  if (argc > 2 && hearth::path_exists(argv[2])) {
    for (const std::string& name : hearth::list_folder(argv[2]))
      inputs.push_back(hearth::read_file(hearth::Path(argv[2]) / name));
  }
  for (const std::string& input : inputs) run_one(input);
  const uint64_t mutations = std::strtoull(argv[1], nullptr, 10);
  for (uint64_t i = 0; i < mutations; ++i) run_one(hearth::fuzz::mutate(inputs[i % inputs.size()], i));

  const int64_t peak = peak_memory_bytes();
  std::printf("%zu inputs, %llu mutations, peak memory %lld MB\n", inputs.size(),
              static_cast<unsigned long long>(mutations), static_cast<long long>(peak >> 20));
  return peak < int64_t{300} << 20 ? 0 : 1;  // no small input is worth more
}
