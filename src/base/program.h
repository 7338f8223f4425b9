// SPDX-License-Identifier: Apache-2.0
// This program: its run from main() to its exit code, what it was built from, its folder and the files next to it, and
// the signs that it is alive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth {

// Runs `body` as main() does, and returns the process's exit code. An exception becomes a message on stderr. One that
// is not an Error, such as std::exception, is our bug (5).
//
// What a command prints to stdout is its result, so an stdout that does not take it is an error: a script on a full
// disk would go on with half a list. A training drops the lines that do not reach their reader (metrics/console.h).
int run_and_report(int (*body)(int argc, char** argv), int argc, char** argv);

// Opens /dev/null in place of stdin, stdout and stderr where the caller closed them, as in `hearth train RUN.toml >&-`.
// The next file that is opened would have their number, and the lines of the training would be written into it.
void open_closed_streams();

// The commit of the sources: "257120cf1a2b", "257120cf1a2b with changes 90ab12cd34ef" (a hash of them) where files
// differ from it, "unknown" where the sources are no git repository. The commit is linked into the programs and into no
// library (cmake/SourceCommit.cmake), so a new commit compiles one file and links two programs.
std::string_view source_commit();

// "0.1.0 (Release, commit 257120cf1a2b)": equal for programs of the same sources and build type.
std::string version_text();

// Raises this process's limit of open files to the system's maximum. The limit of most shells, 1,024, is too low for
// rank 0 of a thousand ranks: it has a connection to each.
void raise_open_files_limit();
int64_t open_files_limit();

// A sign of life, for other processes that wait for this one (comm/process_control.h). Call it after a part of a long
// task, such as a part of a file that was read or written. Any thread.
void note_progress();
uint64_t progress_count();
// While one lives, nothing that its thread does is a sign of life. For a thread that keeps working when the others
// hang.
class NoProgress {
 public:
  NoProgress();
  ~NoProgress();
  NoProgress(const NoProgress&) = delete;
  NoProgress& operator=(const NoProgress&) = delete;
};

// A variable of the environment. Empty if it is not set.
std::string environment_variable(const char* name);

// hearth/NAME in the user's folder for caches: XDG_CACHE_HOME, else ~/.cache. Empty if neither is known.
std::optional<Path> user_cache(std::string_view name);

// The name of this host, cut at its end if it is very long; "unknown" if the system does not tell it.
std::string host_name();

// The file of this program; empty if the system does not tell it.
Path own_program();

// The program's file `name`: in the program's folder, or in ../bin or ../lib (tests; other layouts). Empty if there is
// no such file.
std::optional<Path> beside_program(std::string_view name);

}  // namespace hearth
