// SPDX-License-Identifier: Apache-2.0
// How the processes of one start find each other. Rank 0 listens and the others connect. Each side proves that it knows
// the start's secret before the other believes it:
//
//   rank r -> rank 0   hello: its rank, the number of ranks, the program, its host and process; a random number
//   rank 0 -> rank r   challenge: another random number, the path of the secret, its proof; how long it still waits
//   rank r -> rank 0   its proof
//   rank 0 -> rank r   welcome, when all ranks have come; or the end, with an exit code, when the start has failed
//
// A program that cannot make the proof is ignored: it can neither end nor delay a start. On one host the kernel says
// who is at the other end, and only processes of the same user count. Over a network the secret is the start's key
// together with the content of a file (StartSecret). Without a folder for this file the key alone is the secret, which
// is weaker: other users of the cluster may be able to guess it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "comm/socket.h"

namespace hearth::comm {

// The version of the program and of the libraries that compute. Ranks with different versions may compute different
// numbers.
std::string this_program();
// "node7, process 1234".
std::string this_process();

// A rank's place among the processes of a training.
struct Membership {
  int64_t rank = 0, size = 1;
  std::string address;   // where rank 0 listens; see comm/socket.h
  std::string key;       // identifies this start: equal on its ranks, different for each start
  Path secret_folder{};  // on rank 0: where the secret of a start over a network is written; empty: no file
  std::string program = this_program();  // equal on all ranks
  bool supervised = false;               // a parent process reports a killed rank
  double join_timeout_s = 60;            // time for all ranks to start; a rank that has found rank 0 waits as it does
  double timeout_s = 120;                // how long others wait for a rank, until set_timeout()
  int64_t part = 0;                      // ranks of a part (comm/notes/note_tree.h); 0: as many as usual
};

// The other end of a rank's connection.
struct Met {
  int64_t rank = 0;
  Socket socket{};
  std::string process{};   // this_process() there
  std::string received{};  // bytes that arrived after the meeting
};

// For rank 0: waits for all other ranks, and returns them in order. An address that is taken, or a name that is not
// known, is tried again until join_timeout_s is over. Throws an Error: kHardware, which names the ranks that did not
// come or ended before all were there; kUser if ranks disagree about their number or the program, with the rank and its
// host.
std::vector<Met> meet_all(const Membership& me);

// For the other ranks: finds rank 0. If the start fails, rank 0 says why, and this process ends with the same exit
// code. Throws an Error (kHardware) if rank 0 is not found, or what it wrote cannot be read here.
Met meet_rank_0(const Membership& me);

// How long a rank waits before it says what all ranks find at the same moment: those after the fifth speak together. A
// launcher ends the others after the first, so its user gets one message.
inline constexpr auto kTurn = std::chrono::milliseconds(1500);
inline std::chrono::milliseconds turn_of(int64_t rank) { return std::min<int64_t>(rank - 1, 4) * kTurn; }

// The secret of a start whose ranks meet over a network: a file that only its user can read, in a folder that all hosts
// of the training have. Rank 0 writes it and tells its path to each rank that connects, and the rank proves that it has
// read it. The file exists only while the ranks meet.
class StartSecret {
 public:
  // Writes FOLDER/.start-NUMBER, mode 0600, with a random number; makes the folder. Throws an Error of base/file.h.
  explicit StartSecret(const Path& folder);
  // Removes the file, and the folders that were made and are empty.
  ~StartSecret();
  StartSecret(const StartSecret&) = delete;
  StartSecret& operator=(const StartSecret&) = delete;

  const Path& file() const { return file_; }

 private:
  Path file_, made_;  // made_: the first folder that was not there before; empty: none
};

// The content of such a file. Throws user_error unless the file belongs to this user and nobody else can read it,
// because only such content may go into a proof. Throws system_error if it cannot be read.
std::string read_start_secret(const Path& file);

// 2 * `size` hexadecimal digits from the system's generator of secrets.
std::string random_hex(size_t size);

// HMAC-SHA256 (RFC 2104) as 64 hexadecimal digits: only a process that knows `secret` can make it, and it does not
// reveal `secret`.
std::string proof_of(std::string_view secret, std::string_view text);

// Compares in a time that does not depend on where two texts of one length differ, so that a secret cannot be guessed
// from the time.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace hearth::comm
