#include "plan/device.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "plan/control_group.h"

namespace hearth::plan {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr double kTera = 1e12;

constexpr Device kDevices[] = {
    {"A100", 79 * kGiB, 8, 271 * kTera, 0, "measured: 87 % of its peak"},
    {"H100", 79 * kGiB, 8, 794 * kTera, 0, "measured: 80 % of its peak"},
    {"H200", 140 * kGiB, 8, 794 * kTera, 0, "that of H100, which computes alike"},
    {"MI250X", 64 * kGiB, 8, 147 * kTera, 0, "measured on one die (GCD): 77 % of its peak"},
    {"MI300X", 192 * kGiB, 8, 668 * kTera, 0, "measured, the lower of two: 51 % of its peak"},
};

}  // namespace

std::span<const Device> devices() { return kDevices; }

const Device* find_device(std::string_view name) {
  const auto same = [&](const Device& d) {
    return std::equal(name.begin(), name.end(), d.name.begin(), d.name.end(),
                      [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; });
  };
  const auto found = std::find_if(std::begin(kDevices), std::end(kDevices), same);
  return found == std::end(kDevices) ? nullptr : found;
}

std::string device_names() {
  std::string names;
  for (const Device& d : kDevices) names.append(names.empty() ? "" : ", ").append(d.name);
  return names;
}

Device this_machine() {
  Device cpu{"cpu", int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE), 1, 0, 0, {}};
  if (const auto limit = control_group_memory_bytes()) cpu.memory_bytes = std::min(cpu.memory_bytes, *limit);
  return cpu;
}

int64_t available_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

}  // namespace hearth::plan
