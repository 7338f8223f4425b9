// SPDX-License-Identifier: Apache-2.0
#include "formats/json_walk.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace hearth::formats {
namespace {

using WalkedJson = nlohmann::json;

// The events of nlohmann's parser.
class Walker : public nlohmann::json_sax<WalkedJson> {
 public:
  Walker(const std::string& origin, size_t max_depth, const std::function<void(const JsonLeaf&)>& visit)
      : origin_(origin), max_depth_(max_depth), visit_(visit) {}

  bool null() override { return leaf({JsonLeaf::Kind::kOther, path_, {}}); }
  bool boolean(bool) override { return leaf({JsonLeaf::Kind::kOther, path_, {}}); }
  bool number_integer(number_integer_t) override { return leaf({JsonLeaf::Kind::kOther, path_, {}}); }
  bool number_float(number_float_t, const string_t&) override { return leaf({JsonLeaf::Kind::kOther, path_, {}}); }
  bool binary(binary_t&) override { return leaf({JsonLeaf::Kind::kOther, path_, {}}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return leaf({JsonLeaf::Kind::kOther, path_, {}});
    return leaf({JsonLeaf::Kind::kInteger, path_, {}, static_cast<int64_t>(value)});
  }
  bool string(string_t& value) override { return leaf({JsonLeaf::Kind::kText, path_, value}); }

  bool start_object(size_t) override {
    leaf({JsonLeaf::Kind::kObject, path_, {}});
    return open(true);
  }
  bool start_array(size_t) override {
    leaf({JsonLeaf::Kind::kArray, path_, {}});
    return open(false);
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (level.has_key) path_.pop_back();
    level.has_key = true;
    path_.push_back(name);
    if (!level.keys.insert(name).second) fail(fmt::format("the key \"{}\" is there twice", name));
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    fail(fmt::format("byte {}: {}", position, e.what()));
  }

 private:
  struct Level {
    bool is_object, has_key = false;
    std::unordered_set<std::string> keys{};
  };

  [[noreturn]] void fail(const std::string& why) const {
    throw damaged(fmt::format("{}: not JSON that can be read", origin_), why);
  }
  bool leaf(const JsonLeaf& leaf) {
    visit_(leaf);
    return true;
  }
  bool open(bool is_object) {
    if (levels_.size() >= max_depth_) fail(fmt::format("more than {} levels", max_depth_));
    levels_.push_back({is_object});
    return true;
  }
  bool close() {
    if (levels_.back().has_key) path_.pop_back();
    levels_.pop_back();
    return true;
  }

  const std::string& origin_;
  size_t max_depth_;
  const std::function<void(const JsonLeaf&)>& visit_;
  std::vector<Level> levels_;
  std::vector<std::string> path_;
};

}  // namespace

void walk_json(std::string_view text, const std::string& origin, size_t max_depth,
               const std::function<void(const JsonLeaf&)>& visit) {
  Walker walker(origin, max_depth, visit);
  WalkedJson::sax_parse(text, &walker);
}

}  // namespace hearth::formats
