// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

#include "base/text.h"
#include "hub/process.h"

namespace hearth::bench {
namespace {

constexpr double kProgramTimeout_s = 30;
constexpr double kDay_s = 86400;
constexpr std::array<int64_t, 7> kFaultyHardware = {48, 64, 74, 79, 95, 119, 120};

std::string_view without_spaces(std::string_view text) {
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

// -1 without a number, such as for "[N/A]".
double number_of(std::string_view text) {
  double number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void add_errors(int64_t count, GpuHealth& health) {
  if (count >= 0) health.memory_errors = std::max<int64_t>(health.memory_errors, 0) + count;
}

void add_clocks(double now_mhz, double top_mhz, GpuHealth& health) {
  const auto lower = [](double before, double now) { return before == 0 ? now : std::min(before, now); };
  if (now_mhz > 0) health.least_mhz = lower(health.least_mhz, now_mhz);
  if (top_mhz > 0) health.top_mhz = lower(health.top_mhz, top_mhz);
}

std::string answer_of(const Path& program, std::vector<std::string> words) {
  words.insert(words.begin(), program.string());
  const hub::Outcome outcome =
      hub::run_process({.words = std::move(words), .settings = {}, .timeout_s = kProgramTimeout_s});
  return outcome.exit_code == 0 ? outcome.output : "";
}

void ask_nvidia(GpuHealth& health) {
  const Path query = hub::find_program("nvidia-smi");
  if (query.empty()) return;
  const std::string all = "--query-gpu=index,ecc.errors.uncorrected.volatile.total,clocks.current.sm,clocks.max.sm";
  const std::string format = "--format=csv,noheader,nounits";
  std::string lines = answer_of(
      query, {all + ",clocks_throttle_reasons.hw_slowdown,clocks_throttle_reasons.sw_thermal_slowdown", format});
  if (lines.empty()) lines = answer_of(query, {all, format});  // a driver that knows other words
  add_nvidia_lines(lines, health);
}

// "ue: 3" of a file of amdgpu; -1: there is no such file.
int64_t uncorrected_in(const Path& file) {
  std::ifstream stream(file);
  for (std::string word; stream >> word;)
    if (int64_t count = 0; word == "ue:" && stream >> count) return count;
  return -1;
}

// Lines "1: 1700Mhz *": the star is at the clock of now.
void add_amd_clocks(const Path& file, GpuHealth& health) {
  std::ifstream stream(file);
  double now = 0, top = 0;
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const double mhz = number_of(std::string_view(line).substr(colon + 2));
    top = std::max(top, mhz);
    if (line.ends_with('*')) now = mhz;
  }
  add_clocks(now, top, health);
}

void ask_amd(const Path& system, GpuHealth& health) {
  for (int card = 0; card < 64; ++card) {
    const Path device = system / fmt::format("class/drm/card{}/device", card);
    add_errors(uncorrected_in(device / "ras/umc_err_count"), health);
    add_amd_clocks(device / "pp_dpm_sclk", health);
  }
}

}  // namespace

void add_nvidia_lines(std::string_view lines, GpuHealth& health) {
  for (const std::string& line : split_lines(std::string(lines))) {
    std::vector<std::string> parts = split(line, ',');
    for (std::string& part : parts) part = std::string(without_spaces(part));
    if (parts.size() < 4) continue;
    add_errors(static_cast<int64_t>(number_of(parts[1])), health);
    add_clocks(number_of(parts[2]), number_of(parts[3]), health);
    if (parts.size() < 6) continue;
    health.says_slowed = true;
    const bool by_heat = parts[5] == "Active";
    if (parts[4] != "Active" && !by_heat) continue;
    health.slowed += fmt::format("{}GPU {}: slowed down {}", health.slowed.empty() ? "" : ", ", parts[0],
                                 by_heat ? "by its heat" : "by its hardware");
  }
}

void add_kernel_messages(std::string_view messages, double uptime_s, GpuHealth& health) {
  health.faults = std::max<int64_t>(health.faults, 0);
  for (const std::string& line : split_lines(std::string(messages))) {
    const size_t xid = line.find("NVRM: Xid (");
    const size_t number = xid == std::string::npos ? xid : line.find("): ", xid);
    if (number == std::string::npos) continue;
    const auto code = static_cast<int64_t>(number_of(std::string_view(line).substr(number + 3)));
    if (std::find(kFaultyHardware.begin(), kFaultyHardware.end(), code) == kFaultyHardware.end()) continue;
    // "[12345.678901] NVRM: ...", in seconds since the node's start.
    const size_t bracket = line.find('[');
    const double at_s =
        bracket < xid ? number_of(without_spaces(std::string_view(line).substr(bracket + 1, xid - bracket))) : uptime_s;
    if (uptime_s - at_s > kDay_s) continue;
    ++health.faults;
    health.fault = fmt::format("Xid {}", code);
  }
}

GpuHealth read_gpu_health(const Path& system) {
  GpuHealth health;
  ask_nvidia(health);
  ask_amd(system, health);
  if (const Path messages = hub::find_program("dmesg"); !messages.empty()) {
    double uptime_s = 0;
    std::ifstream("/proc/uptime") >> uptime_s;
    // Without the right to read them dmesg fails, and says nothing on stdout.
    if (const std::string text = answer_of(messages, {}); !text.empty()) add_kernel_messages(text, uptime_s, health);
  }
  return health;
}

}  // namespace hearth::bench
