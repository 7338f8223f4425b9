// `hearth top`: a run, live in a terminal.
#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "cluster/run_status.h"
#include "commands/commands.h"
#include "metrics/throughput.h"
#include "report/live_view.h"
#include "report/run_extras.h"
#include "runfolder/names.h"

namespace hearth::commands {
namespace {

volatile std::sig_atomic_t top_asked_to_end = 0;

// SIGINT and SIGTERM end the view. Restores their actions at its end.
class TopSignals {
 public:
  TopSignals() {
    top_asked_to_end = 0;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action {};
      action.sa_handler = [](int) { top_asked_to_end = 1; };
      ::sigaction(kSignals[i], &action, &before_[i]);
    }
  }
  ~TopSignals() {
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  TopSignals(const TopSignals&) = delete;
  TopSignals& operator=(const TopSignals&) = delete;

 private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};
  std::array<struct sigaction, 2> before_{};
};

// The terminal's other screen, without a cursor; keys come at once and are not shown. Restores all of it.
class FullScreen {
 public:
  FullScreen() {
    if (::tcgetattr(STDIN_FILENO, &before_) == 0) {
      has_keys_ = true;
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fmt::print("\x1b[?1049h\x1b[?25l");
    std::fflush(stdout);
  }
  ~FullScreen() {
    fmt::print("\x1b[?25h\x1b[?1049l");
    std::fflush(stdout);
    if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  void draw(const std::vector<std::string>& lines) {
    std::string text = "\x1b[H";
    for (size_t i = 0; i < lines.size(); ++i) text += (i > 0 ? "\n" : "") + lines[i] + "\x1b[K";
    fmt::print("{}\x1b[J", text);
    std::fflush(stdout);
  }

  // Waits for a key; false after this time, or if there are no keys.
  bool key_is_q(int milliseconds) {
    pollfd keys{STDIN_FILENO, POLLIN, 0};
    if (::poll(&keys, has_keys_ ? 1 : 0, milliseconds) <= 0) return false;
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) <= 0) has_keys_ = false;  // its other end has gone
    return key == 'q' || key == 'Q';
  }

 private:
  termios before_{};
  bool has_keys_ = false;
};

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text = value;
    return text.find("UTF-8") != std::string_view::npos || text.find("utf8") != std::string_view::npos;
  }
  return false;
}

report::Screen screen_now() {
  winsize size{};
  report::Screen screen{.braille = speaks_utf8()};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    screen.columns = size.ws_col;
    screen.rows = size.ws_row;
  }
  return screen;
}

// The run's files, which are read again where they changed. Reading a long run takes a second: so it waits ten times as
// long as that.
class LiveReader {
 public:
  explicit LiveReader(Path run) : folder_(std::move(run)) {
    run_.name = folder_.filename().empty() ? folder_.parent_path().filename().string() : folder_.filename().string();
  }

  const report::LiveRun& read() {
    const double now_s = metrics::monotonic_seconds();
    if (now_s >= next_status_s_) {
      const cluster::RunStatus status = cluster::run_status(folder_);
      if (status.state == cluster::RunState::kNothing)
        throw user_error(fmt::format("{} has no training", folder_.string()),
                         "there are neither steps nor a job, and nothing runs there",
                         "hearth train or hearth submit begins one");
      run_.state = cluster::name_of(status.state);
      run_.steps = status.steps;
      ended_ = status.state == cluster::RunState::kDone || status.state == cluster::RunState::kStopped;
      report::PageRun plan;
      report::add_plan(plan, folder_ / runfolder::kPlanFile);
      run_.plan = plan.plan;
      const double end_s = metrics::monotonic_seconds();
      next_status_s_ = end_s + std::max(5.0, 10 * (end_s - now_s));
    }
    if (metrics::monotonic_seconds() >= next_history_s_) {
      const double start_s = metrics::monotonic_seconds();
      run_.history = metrics::read_history(folder_ / runfolder::kMetricsFile);
      const double end_s = metrics::monotonic_seconds();
      next_history_s_ = end_s + 10 * (end_s - start_s);
    }
    run_.ranks.clear();
    if (mesh::has_flights(folder_ / runfolder::kFlightFolder))
      run_.ranks = mesh::read_flights(folder_ / runfolder::kFlightFolder);
    run_.now = metrics::wall_seconds();
    return run_;
  }
  // The same, whatever the time.
  const report::LiveRun& read_anew() {
    next_status_s_ = next_history_s_ = 0;
    return read();
  }
  bool ended() const { return ended_; }  // nothing goes on with the run

 private:
  Path folder_;
  report::LiveRun run_;
  bool ended_ = false;
  double next_status_s_ = 0, next_history_s_ = 0;
};

void print_lines(LiveReader& reader) {
  std::string before;
  const auto print = [&before](const report::LiveRun& run) {
    const std::string line = report::live_line(run);
    if (line != before) fmt::print("{}\n", line);
    std::fflush(stdout);
    before = line;
  };
  while (top_asked_to_end == 0) {
    print(reader.read());
    if (reader.ended()) return print(reader.read_anew());
    ::poll(nullptr, 0, 1000);
  }
}

}  // namespace

int top(CommandLine& line) {
  Path given;
  line.positional("RUN", &given, "a run folder, or its run file");
  line.append(
      "It draws the state, the loss, speed, memory and ranks once a second, until q or Ctrl-C. Where the output is no "
      "terminal, it prints a line for each new step that it sees, until the run ends.");
  if (!line.parse()) return 0;
  LiveReader reader(cluster::run_folder_of(given));
  reader.read();  // an error about the folder comes before the screen
  const TopSignals signals;
  if (::isatty(STDOUT_FILENO) == 0) {
    print_lines(reader);
    return 0;
  }
  FullScreen screen;
  while (top_asked_to_end == 0) {
    screen.draw(report::live_view(reader.read(), screen_now()));
    if (screen.key_is_q(1000)) break;
  }
  return 0;
}

}  // namespace hearth::commands
