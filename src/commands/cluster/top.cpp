// SPDX-License-Identifier: Apache-2.0
// `hearth top`: a run, live in a terminal.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cluster/run_status.h"
#include "commands/commands.h"
#include "metrics/throughput.h"
#include "report/live_view.h"
#include "report/run_extras.h"
#include "runfolder/names.h"

namespace hearth::commands {
namespace {

volatile std::sig_atomic_t top_asked_to_end = 0;

// SIGINT and SIGTERM end the view, and so this process.
void end_by_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { top_asked_to_end = 1; };
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
}

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
    const std::string_view text = value == nullptr ? "" : value;
    if (!text.empty()) return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
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

// When to read again what was read since `start_s`. Reading a long run takes a second: so it waits ten times as long.
double after_rest(double start_s, double least_s) {
  const double end_s = metrics::monotonic_seconds();
  return end_s + std::max(least_s, 10 * (end_s - start_s));
}

// The run's files, which are read again where they changed.
class LiveReader {
 public:
  explicit LiveReader(Path run) : folder_(std::move(run)) {
    run_.name = folder_.filename().empty() ? folder_.parent_path().filename().string() : folder_.filename().string();
  }

  const report::LiveRun& read() {
    if (const double now_s = metrics::monotonic_seconds(); now_s >= next_status_s_) {
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
      next_status_s_ = after_rest(now_s, /*least_s=*/5);
    }
    if (const double now_s = metrics::monotonic_seconds(); now_s >= next_history_s_) {
      run_.history = metrics::read_history(folder_ / runfolder::kMetricsFile);
      next_history_s_ = after_rest(now_s, /*least_s=*/0);
    }
    const Path flights = folder_ / runfolder::kFlightFolder;
    run_.ranks = trace::has_flights(flights) ? trace::read_flights(flights) : std::vector<trace::Flight>();
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
  end_by_signals();
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
