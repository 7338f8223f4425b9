// SPDX-License-Identifier: Apache-2.0
#include "machine/device.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "machine/control_group.h"

namespace hearth::machine {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr double kGiga = 1e9, kTera = 1e12;

constexpr Links kNvlink = {0, 450 * kGiga, 50 * kGiga};  // of H100 and H200

constexpr Device kDevices[] = {
    {"A100", 79 * kGiB, 8, 271 * kTera, 0, "measured: 87 % of its peak", 2.0 * kTera, {0, 300 * kGiga, 25 * kGiga}},
    {"H100", 79 * kGiB, 8, 794 * kTera, 0, "measured: 80 % of its peak", 3.35 * kTera, kNvlink},
    {"H200", 140 * kGiB, 8, 794 * kTera, 0, "that of H100, which computes alike", 4.8 * kTera, kNvlink},
    // clang-format off
    {"MI250X GCD", 64 * kGiB, 8, 147 * kTera, 0, "measured on one of its two: 77 % of its peak", 1.6 * kTera,
     {200 * kGiga, 50 * kGiga, 12.5 * kGiga}},
    {"MI300X", 192 * kGiB, 8, 668 * kTera, 0, "measured, the lower of two: 51 % of its peak", 5.3 * kTera,
     {0, 448 * kGiga, 50 * kGiga}},
    // clang-format on
};

// Other names of devices: from data sheets, `nvidia-smi` and `rocm-smi`.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"A100-80GB", "A100"},        {"A100-SXM4-80GB", "A100"}, {"A100-SXM-80GB", "A100"}, {"H100-SXM", "H100"},
    {"H100-SXM5", "H100"},        {"H100 80GB HBM3", "H100"}, {"H200-SXM", "H200"},      {"MI250X", "MI250X GCD"},
    {"MI250X die", "MI250X GCD"}, {"MI300X-OAM", "MI300X"},
};

// Letters and digits only, in lower case, without the maker's name: "NVIDIA H100-SXM" is "h100sxm".
std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view maker : {"nvidia", "amd", "instinct"})
    if (letters.starts_with(maker)) letters.erase(0, maker.size());
  return letters;
}

}  // namespace

std::span<const Device> devices() { return kDevices; }

const Device* find_device(std::string_view name) {
  std::string wanted = plain(name);
  for (const auto& [alias, meant] : kAliases)
    if (plain(alias) == wanted) wanted = plain(meant);
  const auto* found = std::ranges::find(kDevices, wanted, [](const Device& device) { return plain(device.name); });
  return found == std::end(kDevices) ? nullptr : found;
}

bool names_this_machine(std::string_view name) {
  const std::string wanted = plain(name);
  return wanted == "cpu" || wanted == "thiscpu" || wanted == "thismachine";
}

std::string nearest_device(std::string_view name) {
  std::vector<std::string> names = {"cpu"};
  for (const Device& d : kDevices) names.push_back(plain(d.name));
  const Device* found = find_device(nearest(plain(name), names));
  return found == nullptr ? "" : std::string(found->name);
}

std::string device_names() {
  std::string names;
  for (const Device& d : kDevices) names.append(names.empty() ? "" : ", ").append(d.name);
  return names;
}

Device this_machine() {
  Device cpu{"cpu", int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE), 1, 0, 0, {}, 0, {}};
  if (const auto limit = control_group_memory_bytes()) cpu.memory_bytes = std::min(cpu.memory_bytes, *limit);
  return cpu;
}

}  // namespace hearth::machine
