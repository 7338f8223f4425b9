// SPDX-License-Identifier: Apache-2.0
#include "comm/meeting.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "base/quantity.h"
#include "comm/notes/frames.h"
#include "comm/notes/meeting_frames.h"
#include "comm/notes/notes.h"

namespace hearth::comm {

namespace {

using Clock = std::chrono::steady_clock;

// Other programs may connect and say nothing, such as probes of ports. So many of them are kept, for so long.
constexpr double kGuest_s = 20;
constexpr size_t kMostGuests = 1024;  // besides the ranks
// Rank 0 answers a hello at once, unless thousands of ranks say it at the same time. Others may hold its first ports
// and say nothing, so a rank waits 1 s at each port, then 2 s, 4 s, 8 s and so long.
constexpr double kChallenge_s = 10;
constexpr double kCheck_s = 0.25;  // between looks at the ranks that are there
constexpr double kConnect_s = 3;   // to one address of a name
// How much longer than the time for all ranks to come a rank waits for rank 0's answer.
constexpr double kAnswerAfterAll_s = 2;
constexpr auto kFirstPause = std::chrono::milliseconds(5), kLongestPause = std::chrono::milliseconds(200);
// Longer than rank 0, and another rank, wait between two looks.
constexpr double kHostAway_s = 4, kVisitorAway_s = 25;

// Notes the time between looks. A process that did not look for so long was stopped, and the others have given it up.
class Looks {
 public:
  explicit Looks(double longest_s) : longest_s_(longest_s) {}
  void look() {
    const auto now = Clock::now();
    const double away_s = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
    if (away_s > longest_s_) away_s_ = away_s;
  }
  // After a wait that may be long.
  void begin_again() { last_ = Clock::now(); }
  void throw_if_away(int64_t rank) const {
    if (away_s_ > 0)
      throw Error(ExitCode::kHardware,
                  fmt::format("rank {} ({}) was stopped for {} while the ranks met", rank, this_process(),
                              format_duration(away_s_)),
                  "the others do not wait so long", "see their messages");
  }

 private:
  const double longest_s_;
  double away_s_ = 0;
  Clock::time_point last_ = Clock::now();
};

double seconds_until(Clock::time_point when) { return std::chrono::duration<double>(when - Clock::now()).count(); }

std::string secret_with(const std::string& key, const std::string& file_content) {
  return parts_as_bytes(key, file_content);
}

// A connection that has not proved to be a rank.
struct Guest {
  Socket socket;
  Clock::time_point since = Clock::now();
  std::string received{};
  std::optional<Hello> hello{};
  std::string challenge{};
};

// Rank 0's side.
class Host {
 public:
  explicit Host(const Membership& me)
      : me_(me),
        deadline_(Clock::now() +
                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(me.join_timeout_s))) {
    for (int64_t r = 1; r < me.size; ++r) met_.push_back({.rank = r});
    make_secret();
  }

  std::vector<Met> run() {
    if (met_.empty()) return {};
    try {
      open_door();
      for (size_t absent = met_.size(); absent > 0; absent -= look()) check_are_there();
    } catch (const Error& error) {
      for (const Met& met : met_)
        if (met.socket.valid())
          say(met.socket, std::string_view("end"), std::to_string(static_cast<int>(error.code())));
      throw;
    }
    for (const Met& met : met_) say(met.socket, std::string_view("welcome"), this_process());
    return std::move(met_);
  }

 private:
  // Others on the network may guess the key. A folder that cannot be written is an error of the run later on.
  void make_secret() {
    const bool over_network = me_.address.starts_with("tcp:") && !me_.secret_folder.empty();
    try {
      if (over_network) file_.emplace(me_.secret_folder);
    } catch (const Error& error) {
      file_.reset();
      log_message(LogLevel::kWarning, fmt::format("ranks know each other by the key of the start alone: {}{}",
                                                  error.message(), error.why().empty() ? "" : ": " + error.why()));
    }
    secret_ = secret_with(me_.key, file_ ? read_start_secret(file_->file()) : "");
  }

  std::vector<int64_t> absent() const {
    std::vector<int64_t> ranks;
    for (const Met& met : met_)
      if (!met.socket.valid()) ranks.push_back(met.rank);
    return ranks;
  }

  void open_door() {
    std::string why;
    while (!(door_ = Socket::listen(me_.address, why)).valid()) {
      if (seconds_until(deadline_) < 0)
        throw Error(ExitCode::kHardware, fmt::format("rank 0 cannot wait for the other ranks at {}", me_.address), why,
                    "another program uses the port: set MASTER_PORT to a free one, or start again later");
      std::this_thread::sleep_for(kLongestPause);
    }
  }

  // Waits for the next thing that happens, and takes it. Returns the number of ranks that were let in.
  size_t look() {
    const double left_s = seconds_until(deadline_);
    looks_.look();
    if (left_s <= 0) looks_.throw_if_away(0);
    if (left_s <= 0)
      throw Error(ExitCode::kHardware,
                  fmt::format("{} did not start within {}", list_ranks(absent()), format_duration(me_.join_timeout_s)),
                  fmt::format("rank 0 waited for them at {}", me_.address),
                  "see the messages of the missing ranks; if they are merely slow, raise comm.init_timeout_seconds");
    std::vector<pollfd> wanted{{door_.fd(), POLLIN, 0}};
    for (const Guest& guest : guests_) wanted.push_back({guest.socket.fd(), POLLIN, 0});
    ::poll(wanted.data(), wanted.size(), static_cast<int>(1e3 * std::min(left_s, kCheck_s)) + 1);
    size_t let_in = 0;
    for (size_t i = 0; i + 1 < wanted.size(); ++i)
      if (wanted[i + 1].revents != 0) let_in += hear(guests_[i]) ? 1 : 0;
    if (wanted[0].revents != 0) take_guests();
    const auto oldest = Clock::now() - std::chrono::duration<double>(kGuest_s);
    std::erase_if(guests_, [&](const Guest& guest) { return !guest.socket.valid() || guest.since < oldest; });
    while (guests_.size() > kMostGuests + static_cast<size_t>(me_.size)) guests_.pop_front();
    return let_in;
  }

  void take_guests() {
    for (Socket socket = door_.accept(); socket.valid(); socket = door_.accept())
      if (socket.is_of_same_user()) guests_.push_back({std::move(socket)});
  }

  // A rank says nothing between its proof and the welcome: something to be read is its end.
  void check_are_there() {
    if (Clock::now() < next_check_) return;
    next_check_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kCheck_s));
    std::vector<pollfd> wanted;
    for (const Met& met : met_)
      wanted.push_back({met.socket.fd(), POLLIN, 0});  // -1, of one that is not here: passed over
    if (::poll(wanted.data(), wanted.size(), 0) <= 0) return;
    for (size_t i = 0; i < met_.size(); ++i)
      if (wanted[i].revents != 0 && !met_[i].socket.receive()) throw_ended(met_[i]);
  }

  [[noreturn]] static void throw_ended(const Met& met) {
    throw Error(ExitCode::kHardware,
                fmt::format("rank {} ({}) ended before all ranks had started", met.rank, met.process),
                "it was killed, its node failed, or the network did", "see its messages");
  }

  // True: the guest is a rank, and was let in.
  bool hear(Guest& guest) {
    const std::optional<std::string> bytes = guest.socket.receive();
    if (!bytes) return guest.socket.close(), false;
    guest.received += *bytes;
    for (Heard heard; (heard = take_frame(guest.received)).kind != Heard::Kind::kNothing;) {
      if (heard.kind == Heard::Kind::kNoRank || !answer(guest, heard.parts)) return guest.socket.close(), false;
      if (!guest.socket.valid()) return true;
    }
    return false;
  }

  // False: this is no rank of ours.
  bool answer(Guest& guest, const std::vector<std::string>& parts) {
    if (!guest.hello) {
      guest.hello = hello_in(parts);
      if (!guest.hello) return false;
      guest.challenge = random_hex(16);
      return say(guest.socket, std::string_view("challenge"), guest.challenge, file_ ? file_->file().string() : "",
                 proof_by("rank 0", secret_, *guest.hello, guest.challenge),
                 std::to_string(std::max<int64_t>(1 + std::llround(seconds_until(deadline_)), 0)));
    }
    if (parts.size() != 2 || parts[0] != "proof") return false;
    if (!is_same_secret(parts[1], proof_by("rank", secret_, *guest.hello, guest.challenge))) return false;
    let_in(guest);
    return true;
  }

  void let_in(Guest& guest) {
    const Hello& hello = *guest.hello;
    std::string problem;
    if (hello.program != me_.program)
      problem = fmt::format("is another build than rank 0: {}, and rank 0 is {}", hello.program, me_.program);
    if (hello.size != me_.size)
      problem = fmt::format("was started as one of {} ranks, rank 0 as one of {}", hello.size, me_.size);
    const bool has_place = hello.rank >= 1 && hello.rank < me_.size;
    if (problem.empty() && (!has_place || met_[static_cast<size_t>(hello.rank) - 1].socket.valid()))
      problem = "was started twice";
    if (!problem.empty()) {
      say(guest.socket, std::string_view("end"), std::to_string(static_cast<int>(ExitCode::kUser)));
      throw user_error(fmt::format("rank {} ({}) {}", hello.rank, hello.process, problem),
                       "the ranks are not of one start", "start all ranks by one command, with one build of Hearth");
    }
    Met& met = met_[static_cast<size_t>(hello.rank) - 1];
    met.socket = std::move(guest.socket);
    met.process = hello.process;
  }

  const Membership& me_;
  const Clock::time_point deadline_;
  std::optional<StartSecret> file_;
  std::string secret_;
  Socket door_;
  std::vector<Met> met_;
  std::deque<Guest> guests_;
  Clock::time_point next_check_ = Clock::now();
  Looks looks_{kHostAway_s};
};

// Another rank's side.
class Visitor {
 public:
  explicit Visitor(const Membership& me)
      : me_(me),
        deadline_(Clock::now() +
                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(me.join_timeout_s))),
        hello_{me.rank, me.size, me.program, this_process(), random_hex(16)} {}

  Met run() {
    auto pause = kFirstPause;
    for (size_t port = 0;; port = (port + 1) % Socket::num_ports(me_.address)) {
      if (try_port(port)) return std::move(rank_0_);
      looks_.look();
      if (seconds_until(deadline_) < 0) give_up();
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }

 private:
  [[noreturn]] void give_up() const {
    if (!unreadable_.empty())
      throw Error(ExitCode::kHardware,
                  fmt::format("rank {} ({}) cannot read what rank 0 wrote for it", me_.rank, hello_.process),
                  unreadable_, "job.dump_folder has to be one folder for the hosts of all ranks");
    looks_.throw_if_away(me_.rank);
    std::this_thread::sleep_for(turn_of(me_.rank));  // all ranks give up at once, for one reason
    if (was_let_down_)
      throw Error(ExitCode::kHardware, fmt::format("rank {} got no answer from rank 0 at {}", me_.rank, me_.address),
                  "another program or another start listens there, or rank 0 hangs",
                  "see the messages of rank 0; MASTER_PORT names another port");
    throw Error(ExitCode::kHardware,
                fmt::format("rank {} did not find rank 0 within {}", me_.rank, format_duration(me_.join_timeout_s)),
                fmt::format("it should listen at {}: {}", me_.address, why_), "see the messages of rank 0");
  }

  // False: rank 0 is not there, or not yet.
  bool try_port(size_t port) {
    rank_0_ = {};
    Socket& socket = rank_0_.socket = Socket::connect(me_.address, port, kConnect_s, why_);
    if (!socket.valid() || !socket.is_of_same_user()) return false;
    was_let_down_ = true;
    if (!say(socket, std::string_view("hello"), std::to_string(hello_.rank), std::to_string(hello_.size),
             hello_.program, hello_.process, hello_.number))
      return false;
    const size_t round = std::min<size_t>(tries_++ / Socket::num_ports(me_.address), 4);
    const double patience_s = std::min(kChallenge_s, static_cast<double>(1 << round));
    const std::vector<std::string> challenge = next(std::min(patience_s, seconds_until(deadline_) + 0.1));
    if (challenge.size() != 5 || challenge[0] != "challenge") return false;
    looks_.look();
    const std::optional<std::string> secret = secret_of(challenge[2]);
    looks_.begin_again();
    if (!secret || !is_same_secret(challenge[3], proof_by("rank 0", *secret, hello_, challenge[1]))) return false;
    if (!say(socket, std::string_view("proof"), proof_by("rank", *secret, hello_, challenge[1]))) return false;
    // Rank 0 answers when all ranks have come, or its time is over.
    looks_.look();
    const auto rank_0_waits_s = static_cast<double>(number_of(challenge[4]).value_or(0));
    const std::vector<std::string> answer =
        next(std::max(rank_0_waits_s, seconds_until(deadline_)) + kAnswerAfterAll_s);
    looks_.begin_again();
    if (answer.size() != 2) return false;
    if (answer[0] == "end") std::_Exit(static_cast<int>(number_of(answer[1]).value_or(4)));  // rank 0 says why
    rank_0_.process = answer[1];
    return answer[0] == "welcome";
  }

  // The parts of the next frame; empty: none came.
  std::vector<std::string> next(double timeout_s) {
    const auto until = Clock::now() + std::chrono::duration<double>(timeout_s);
    while (true) {
      const Heard heard = take_frame(rank_0_.received);
      if (heard.kind != Heard::Kind::kNothing) return heard.parts;
      const double left_s = std::chrono::duration<double>(until - Clock::now()).count();
      const std::optional<std::string> bytes =
          rank_0_.socket.wait(left_s) ? rank_0_.socket.receive() : std::optional<std::string>();
      if (!bytes) return {};
      rank_0_.received += *bytes;
    }
  }

  // A network's file system may need a moment to show the file. nullopt: it cannot be read, or not yet.
  std::optional<std::string> secret_of(const std::string& file) {
    try {
      std::string secret = secret_with(me_.key, file.empty() ? "" : read_start_secret(file));
      unreadable_.clear();
      return secret;
    } catch (const Error& error) {
      unreadable_ = error.message() + (error.why().empty() ? "" : ": " + error.why());
      return std::nullopt;
    }
  }

  const Membership& me_;
  const Clock::time_point deadline_;
  const Hello hello_;
  Met rank_0_;
  std::string why_ = "nobody answers", unreadable_;
  Looks looks_{kVisitorAway_s};
  size_t tries_ = 0;           // of ports where somebody takes connections
  bool was_let_down_ = false;  // somebody takes connections there
};

}  // namespace

std::string this_program() {
  return fmt::format("hearth-train {}, LibTorch {}", version_text(), HEARTH_LIBTORCH_VERSION);
}

std::string this_process() { return fmt::format("{}, process {}", host_name(), ::getpid()); }

std::vector<Met> meet_all(const Membership& me) {
  constexpr int64_t kOtherFiles = 24;  // libraries, logs, a checkpoint and its lists
  if (const int64_t most = open_files_limit(); most < me.size + kOtherFiles)
    throw user_error(
        fmt::format("{} ranks need {} open files in rank 0, and the system allows {}", me.size, me.size + kOtherFiles,
                    most),
        "rank 0 has a connection to every other rank",
        "raise the hard limit (ulimit -Hn shows it; a scheduler or container may set it), or start fewer ranks");
  return Host(me).run();
}
Met meet_rank_0(const Membership& me) { return Visitor(me).run(); }

}  // namespace hearth::comm
