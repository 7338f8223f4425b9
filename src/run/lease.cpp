#include "run/lease.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <utility>

#include "base/error.h"

namespace hearth::run {
namespace {

// "key = value" lines.
std::map<std::string, std::string> read_lines(const Path& file) {
  std::map<std::string, std::string> lines;
  const std::string text = read_file(file);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size()), equals = text.find(" = ", begin);
    if (equals < end) lines[text.substr(begin, equals - begin)] = text.substr(equals + 3, end - equals - 3);
    begin = end + 1;
  }
  return lines;
}

int64_t number_of(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

}  // namespace

Lease Lease::take(const Path& run) {
  const Path file = run / "lease";
  const int64_t number = 1 + newest(run);
  std::random_device random;
  const std::string id = fmt::format("{:08x}{:08x}", random(), random());
  std::string text = fmt::format("start = {}\nid = {}\nhost = {}\nprocess = {}\ntime = {}\n", number, id, host_name(),
                                 ::getpid(), utc_now());
  if (const char* job = std::getenv("SLURM_JOB_ID")) text += fmt::format("job = {}\n", job);
  write_file_atomic(file, text);
  return {file, number, id};
}

int64_t Lease::newest(const Path& run) {
  return path_exists(run / "lease") ? number_of(read_lines(run / "lease")["start"]) : 0;
}

bool Lease::is_held() const { return path_exists(file_) && read_lines(file_)["id"] == id_; }

void Lease::check() const {
  if (is_held()) return;
  std::map<std::string, std::string> now;
  if (path_exists(file_)) now = read_lines(file_);
  const bool is_there = now.contains("start");
  throw Error(ExitCode::kHardware,
              !is_there
                  ? fmt::format("{} is gone or damaged", file_.string())
                  : fmt::format("this training was replaced by another start: on {}, process {}, at {}{}", now["host"],
                                now["process"], now["time"], now.contains("job") ? ", job " + now["job"] : ""),
              "only one of them may write checkpoints, and this one is the older",
              fmt::format("leave the newer one alone; {} says which it is", file_.string()));
}

}  // namespace hearth::run
