// A JSON object as a record: what JSON lines and other files of JSON have in common.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "data/formats/json_text.h"
#include "data/source/source.h"

namespace hearth::data {

// The problem of a record that begins with the mark. The one that begins a file is no part of it.
inline constexpr std::string_view kMarkInside =
    "it begins with a byte order mark (EF BB BF), as where two files were joined";

class JsonRecord {
 public:
  explicit JsonRecord(const SourceFile& file, const ReadRules& rules)
      : rules_(rules), json_(rules_), path_(file.path) {}
  JsonRecord(const JsonRecord&) = delete;
  JsonRecord& operator=(const JsonRecord&) = delete;

  // Fills in the record's text, weights and problem. Its views are valid until the next call.
  void read(std::string_view object, Record& record);
  void set_too_long(Record& record) const;
  const ReadRules& rules() const { return rules_; }

 private:
  std::string ids_fix() const;

  ReadRules rules_;
  JsonText json_;
  std::string path_;
  std::string text_;
};

// Makes `record` the last one of a file whose rest cannot be read.
void set_unreadable(const Error& error, Record& record);

}  // namespace hearth::data
