// SPDX-License-Identifier: Apache-2.0
// Collects errors, so that a user sees all of them after one start.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace hearth {

// Several errors as one. message() lists them, each with its why and fix. If one is a user error, the exit code is
// kUser: a retry would not help.
class Errors : public Error {
 public:
  Errors(const std::string& title, std::vector<Error> list);
  const std::vector<Error>& list() const { return list_; }

 private:
  std::vector<Error> list_;
};

class ErrorList {
 public:
  // Runs `body` and keeps the Error, or each of the Errors, that it throws. A bug is thrown on. An error with the same
  // text is kept once. Returns whether `body` threw no error.
  template <class Body>
  bool attempt(const Body& body) {
    try {
      body();
      return true;
    } catch (const Errors& errors) {
      for (const Error& error : errors.list()) keep(error);
    } catch (const Error& error) {
      if (error.code() == ExitCode::kBug) throw;
      keep(error);
    }
    return false;
  }

  // As attempt; errors without a key get `key`, a key of the run file.
  template <class Body>
  bool attempt_about(const std::string& key, const Body& body) {
    return attempt([&] {
      ErrorList inner;
      inner.attempt(body);
      for (Error& error : inner.list_)
        if (error.key().empty()) error = error.about(key);
      inner.throw_if_any(key);
    });
  }

  bool empty() const { return list_.empty(); }
  const std::vector<Error>& list() const { return list_; }

  // Throws the kept errors: a single one unchanged, several as Errors that begin with "TITLE has 3 errors".
  void throw_if_any(const std::string& title) const;

 private:
  void keep(const Error& error);

  std::vector<Error> list_;
};

}  // namespace hearth
