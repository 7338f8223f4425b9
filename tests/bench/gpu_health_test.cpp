// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/environment.h"

namespace hearth::bench {
namespace {

using testing::HasSubstr;

// Programs that stand for nvidia-smi and dmesg, alone in PATH.
class GpuHealths : public testing::Test {
 protected:
  GpuHealths() : path_(std::getenv("PATH")) { ::setenv("PATH", scratch.path().c_str(), 1); }
  ~GpuHealths() override { ::setenv("PATH", path_.c_str(), 1); }
  void program(const std::string& name, const std::string& script) {
    write_file_atomic(scratch / name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(scratch / name, std::filesystem::perms::all);
  }
  GpuHealth read() { return read_gpu_health(scratch / "sys"); }

  test::ScratchFolder scratch;

 private:
  std::string path_;
};

TEST_F(GpuHealths, AreNotKnownWithoutPrograms) { EXPECT_EQ(read(), GpuHealth{}); }

TEST_F(GpuHealths, AreThoseOfNvidiaSmi) {
  program("nvidia-smi",
          "echo '0, 0, 1980, 1980, Not Active, Not Active'; echo '1, 2, 1200, 1980, Active, Not Active'\n"
          "echo '2, [N/A], 1905, 1830, Not Active, Active'");
  const GpuHealth health = read();
  EXPECT_EQ(health.memory_errors, 2);
  EXPECT_EQ(health.least_mhz, 1200);
  EXPECT_EQ(health.top_mhz, 1830);
  EXPECT_EQ(health.slowed, "GPU 1: slowed down by its hardware, GPU 2: slowed down by its heat");
  EXPECT_EQ(health.faults, -1);
}

TEST_F(GpuHealths, NeedNoReasonsOfSlowdown) {
  program("nvidia-smi",
          "case $1 in *hw_slowdown*) echo 'Field is not a valid field to query.'; exit 2;; esac\n"
          "echo '0, 0, 1410, 1980'");
  EXPECT_EQ(read().least_mhz, 1410);
  EXPECT_FALSE(read().says_slowed);
  program("nvidia-smi", "echo 'NVIDIA-SMI has failed because it could not communicate with the driver.'; exit 9");
  EXPECT_EQ(read(), GpuHealth{});
}

TEST_F(GpuHealths, HaveTheXidsOfFaultyHardwareOfTheLastDay) {
  program("dmesg",
          "echo '[    1.5] NVRM: loading NVIDIA UNIX'\n"
          "echo \"[$(read -r up rest </proc/uptime; echo $up)] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the "
          "bus.\"\n"
          "echo '[   17.5] NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=x, Ch 1'");
  EXPECT_EQ(read().faults, 1);
  EXPECT_EQ(read().fault, "Xid 79");
  program("dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1");
  EXPECT_EQ(read().faults, -1);

  GpuHealth health;
  add_kernel_messages("[100.0] NVRM: Xid (PCI:0000:3b:00): 48, a\n[90000.0] NVRM: Xid (PCI:0000:3b:00): 95, b\n",
                      100'000, health);
  EXPECT_EQ(health.faults, 1);
  EXPECT_EQ(health.fault, "Xid 95");
}

TEST_F(GpuHealths, AreThoseOfAmdgpusFiles) {
  for (const char* card : {"card0", "card7"}) {
    const Path device = scratch / "sys/class/drm" / card / "device";
    make_folders(device / "ras");
    write_file_atomic(device / "ras/umc_err_count", "ue: 1\nce: 5\n");
    write_file_atomic(device / "pp_dpm_sclk",
                      card[4] == '0' ? "0: 500Mhz\n1: 1700Mhz *\n" : "0: 500Mhz *\n1: 1700Mhz\n");
  }
  const GpuHealth health = read();
  EXPECT_EQ(health.memory_errors, 2);
  EXPECT_EQ(health.least_mhz, 500);
  EXPECT_EQ(health.top_mhz, 1700);
}

}  // namespace
}  // namespace hearth::bench
