// SPDX-License-Identifier: Apache-2.0
#include "commands/progress_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace hearth::commands {
namespace {

TEST(BytesBar, HasTheTotalAndThenRateAndTimeLeft) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const std::string bar = "writing  [#######.......................]  25 %";
  EXPECT_EQ(bytes_bar("writing", 4 * kGiB, 16 * kGiB), bar + "  4.00 GiB of 16.0 GiB");
  EXPECT_EQ(bytes_bar("writing", 4 * kGiB, 16 * kGiB, 0.5), bar + "  4.00 GiB of 16.0 GiB");
  EXPECT_EQ(bytes_bar("writing", 4 * kGiB, 16 * kGiB, 8), bar + "  4.00 GiB of 16.0 GiB  512.0 MiB/s  24 s left");
  EXPECT_EQ(bytes_bar("writing", 0, 0, 8), "writing  [..............................]   0 %");
  EXPECT_EQ(bytes_bar("writing", kGiB, kGiB, 8),
            "writing  [##############################] 100 %  1.00 GiB of 1.00 GiB");
}

// As after `disown`, when the window is closed: the work goes on.
TEST(ProgressLine, OfATerminalThatIsGoneEndsNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int window = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (window < 0 || ::grantpt(window) != 0 || ::unlockpt(window) != 0) ::_exit(2);
    const int terminal = ::open(::ptsname(window), O_RDWR | O_NOCTTY);
    if (terminal < 0 || ::dup2(terminal, STDERR_FILENO) < 0) ::_exit(3);
    std::atomic<int> drawn = 0;
    {
      const ProgressLine line([&] { return std::to_string(++drawn); });
      ::close(window);
      while (drawn < 3) std::this_thread::yield();
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hearth::commands
