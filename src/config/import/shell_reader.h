// The reader behind read_shell. It parses and follows a script at once: parts that do not run are parsed alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "config/import/shell.h"

namespace hearth::config {

// A character of a script or of a value, with the place where somebody wrote it.
struct Letter {
  char c = 0;
  int line = 0;
  int unknown = -1;  // number of a reason: this stands for a text that is not known
};
using Letters = std::vector<Letter>;

class ShellReader {
 public:
  void read(Letters script);
  void set(const std::string& name, Letters value);
  ShellScript result();

 private:
  enum class Mode { kRun, kMaybe, kSkip };                 // kMaybe: whether it runs is not known
  enum class Truth { kTrue, kFalse, kAssumed, kUnknown };  // kAssumed: a command that is taken to succeed
  struct Value {
    bool list = false;
    std::vector<Letters> elements;  // one, unless it is a list
    bool joined = false;            // ${A[*]}: one word between quotes
  };
  struct Place {
    std::shared_ptr<const Letters> source;
    size_t at = 0;
  };
  // A level of nesting. There is a limit.
  struct Within {
    explicit Within(ShellReader& reader) : depth(reader.depth_) {
      constexpr int kMostLevels = 60;
      if (++depth > kMostLevels) reader.fault("commands are nested too deeply");
    }
    ~Within() { --depth; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
    int& depth;
  };

  // shell_control.cpp: which commands run. Each begins at the place, and ends behind what it read.
  Truth list();
  Truth and_or();
  Truth pipeline();
  Truth command();
  Truth if_command();
  void loop();
  void case_command();
  void in_mode(Mode mode, const std::function<void()>& body);
  static Mode mode_if(Truth truth, bool taken_for_sure);

  // shell.cpp: commands themselves
  Truth simple();
  Truth run_simple(std::vector<Letters>& words, int line);
  void run_text(const Letters& text);
  void run_in_subshell(const std::function<void()>& body);
  void call(const std::string& name, std::vector<Letters> words);
  void set_arguments(const std::vector<Letters>& words);  // of `set` and `shift`
  void define_function(const std::string& name);
  bool assignment(bool is_local);
  void shadow(const std::string& name);  // `local`
  void assign(const std::string& name, bool append, Value value);
  bool redirection();

  // shell_parse.cpp: characters
  char peek(size_t ahead = 0) const;
  bool starts(std::string_view text) const;
  int line() const;
  void skip_blanks();
  void skip_separators();
  void skip_here_documents();
  std::string keyword() const;  // the plain word at the place, if it is one
  bool take(std::string_view keyword);
  void expect(std::string_view keyword);
  void skip_to(char close);  // to behind the end of ( or {, over quotes and nested ones
  std::string name_at() const;
  Letters between(size_t begin, size_t end) const;  // of the text at the place
  [[noreturn]] void fault(std::string what) const;

  // shell_expand.cpp: words
  void word(std::vector<Letters>& fields, bool split);
  Letters value_word();          // without splitting
  Letters expand(Letters text);  // as between double quotes
  void quoted(Letters& current, std::vector<Letters>& fields, bool& has);
  Value expansion();  // after a $
  Value output();     // of $( ), <( ) and >( ): not known
  Value output_of(std::string command);
  Value braces();  // after ${
  Value substituted(const std::string& name, bool is_set, const Value& value, Letters operand);
  Value variable(const std::string& name);
  Value positional(char c);
  void add(const Value& value, bool quoted, bool split, Letters& current, std::vector<Letters>& fields, bool& has);
  Letters unknown(std::string reason);
  Letters letters(std::string_view text) const;
  void count(size_t letters);  // against the limit

  // shell_truth.cpp: numbers and truths
  Letters arithmetic(const Letters& text);
  std::optional<int64_t> number(const Letters& text);  // empty: why_ says why
  Truth test(std::span<const Letters> words);
  Truth double_brackets();
  Truth fits(const Letters& pattern, const Letters& text);  // a pattern with * and ?
  const std::string* reason(const Letters& text) const;     // null: it is known

  Place place_;
  Mode mode_ = Mode::kRun;
  std::string maybe_;       // why it is not known whether this runs
  std::string why_;         // why the last truth or number is not known
  bool returned_ = false;   // the rest of a function does not run
  bool exited_ = false;     // the rest of the script does not run
  bool left_loop_ = false;  // returned_ holds for the rest of a loop's body
  int depth_ = 0;
  size_t letters_ = 0, commands_ = 0;
  std::vector<std::string> here_;  // ends of here-documents that begin after this line
  std::map<std::string, Value> variables_;
  std::map<std::string, Place> functions_;
  std::optional<std::vector<Letters>> arguments_;                       // of a function
  std::vector<std::pair<std::string, std::optional<Value>>> shadowed_;  // what `local` hides until the function ends
  std::set<std::string> defaulted_;
  std::vector<std::string> sourced_;
  std::deque<std::string> reasons_;  // a deque: reason() gives pointers into it
  std::vector<ShellCommand> read_;
};

std::string plain_text(const Letters& letters);  // with ? for what is not known

}  // namespace hearth::config
