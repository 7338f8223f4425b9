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

// The dialect that knows most of the keys, or the one named `from`. A dialect that knows no option of a command does
// not count. `title`: the files, for errors. Throws user_error if no dialect knows a key, if the keys are another
// program's, if a guess knows fewer than half of the keys, and for a run file of Hearth.
Dialect choose_dialect(std::span<const ForeignKey> keys, std::string_view from, const std::string& title);

// Refuses a file without a key of the dialect, and files that do not describe a training. `files`: the names, one by
// one.
void require_training(const Dialect& dialect, std::span<const ForeignKey> keys, std::span<const std::string> files,
                      std::vector<Problem>& problems);

// Turns a line NAME=value into the option of the same name in small letters. A NAME with small letters that is no
// option is a problem: variables of the environment have capitals. If the text also names a program, all such lines are
// variables, because bash does not pass them on as options.
void name_variables(const Dialect& dialect, std::vector<ForeignKey>& keys, std::vector<Problem>& problems);

// Turns --no-NAME into NAME = false, if NAME is an option and no_NAME is not. Messages show it in this form.
void join_negations(const Dialect& dialect, std::vector<ForeignKey>& keys);

}  // namespace hearth::config
