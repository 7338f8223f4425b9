// SPDX-License-Identifier: Apache-2.0
// Which trainer's files these are: found from their keys, with the reasons in the errors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/import/dialects.h"

namespace hearth::config {

std::vector<Dialect> dialects();

// The dialect that has most of the keys, or the one of the name `from`. A trainer that has none of a command's options
// is out. `title`: the files, for errors. Throws
// user_error where no dialect has a key, where another program's own keys stand there, or where a guess has fewer than
// half of the keys, and for a run file of Hearth.
Dialect choose_dialect(std::span<const ForeignKey> keys, std::string_view from, const std::string& title);

// Refuses a file without a key of the dialect, and files that say nothing of a training. `files`: the names, one by
// one.
void require_training(const Dialect& dialect, std::span<const ForeignKey> keys, std::span<const std::string> files,
                      std::vector<Problem>& problems);

// Gives NAME of a line NAME=value the name of an option that is written so, in small letters. A NAME with small
// letters that no option has is a problem: variables of the environment have capitals. Beside a program all of them are
// variables, and bash passes none on as an option.
void name_variables(const Dialect& dialect, std::vector<ForeignKey>& keys, std::vector<Problem>& problems);

// --no-NAME, where NAME is an option and no_NAME is not, becomes NAME = false, and is shown so.
void join_negations(const Dialect& dialect, std::vector<ForeignKey>& keys);

}  // namespace hearth::config
