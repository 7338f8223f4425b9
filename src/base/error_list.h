// A user's errors, collected, so that all are seen at once and not one a start.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace hearth {

// Several errors of a user as one: message() lists them, each with its why and fix.
class Errors : public Error {
 public:
  Errors(const std::string& title, std::vector<Error> list);
  const std::vector<Error>& list() const { return list_; }

 private:
  std::vector<Error> list_;
};

class ErrorList {
 public:
  // Runs `body` and keeps the user_error, or the Errors, that it throws; anything else goes on. What is kept already is
  // not kept twice. Whether it threw none.
  template <class Body>
  bool attempt(const Body& body) {
    try {
      body();
      return true;
    } catch (const Errors& errors) {
      for (const Error& error : errors.list()) keep(error);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kUser) throw;
      keep(error);
    }
    return false;
  }

  bool empty() const { return list_.empty(); }

  // Throws what was kept: one as it was, several as Errors that begin with "TITLE has 3 errors".
  void throw_if_any(const std::string& title) const;

 private:
  void keep(const Error& error);

  std::vector<Error> list_;
};

}  // namespace hearth
