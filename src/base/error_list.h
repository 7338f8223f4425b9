// Errors, collected, so that all are seen at once and not one a start.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace hearth {

// Several errors as one: message() lists them, each with its why and fix. If one of them is the user's, so is all of
// it: trying again would not help.
class Errors : public Error {
 public:
  Errors(const std::string& title, std::vector<Error> list);
  const std::vector<Error>& list() const { return list_; }

 private:
  std::vector<Error> list_;
};

class ErrorList {
 public:
  // Runs `body` and keeps the Error, or each of the Errors, that it throws; but a bug goes on. What is kept already is
  // not kept twice. Whether it threw none.
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

  // The same for what is about `key` of the run file; what is about another already stays so.
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

  // Throws what was kept: one as it was, several as Errors that begin with "TITLE has 3 errors".
  void throw_if_any(const std::string& title) const;

 private:
  void keep(const Error& error);

  std::vector<Error> list_;
};

}  // namespace hearth
