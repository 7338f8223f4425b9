// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "formats/pickle.h"
#include "formats/pickle_names.h"
#include "formats/pickle_opcodes.h"

namespace hearth::formats {
namespace {

constexpr int64_t kHighestProtocol = 5;
// Protocol 2 uses the name of Python 2.
bool is_getattr(std::string_view name) { return name == "builtins.getattr" || name == "__builtin__.getattr"; }

}  // namespace

class PickleParser {
 public:
  PickleParser(std::span<const std::byte> bytes, const std::string& origin, const PickleLimits& limits)
      : bytes_(bytes), limits_(limits) {
    pickle_.origin_ = origin;
    if (static_cast<int64_t>(bytes.size()) > limits.max_bytes)
      fail(fmt::format("{} bytes are more than the limit of {}", bytes.size(), limits.max_bytes));
  }

  Pickle run() {
    while (!stopped_) {
      opcode_at_ = position_;
      step(static_cast<uint8_t>(little_endian(1)));
    }
    return std::move(pickle_);
  }

 private:
  using Node = Pickle::Node;

  [[noreturn]] void fail(const std::string& why) const {
    throw damaged(fmt::format("{}: not a pickle that can be read (byte {})", pickle_.origin_, opcode_at_), why);
  }

  // --- input
  std::string_view take(uint64_t length) {
    if (length > bytes_.size() - position_)
      fail(fmt::format("it ends {} bytes early", length - (bytes_.size() - position_)));
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + position_, length);
    position_ += length;
    return text;
  }
  uint64_t little_endian(uint64_t width) {
    const std::string_view text = take(width);
    uint64_t value = 0;
    for (size_t i = 0; i < text.size(); ++i) value |= uint64_t{static_cast<uint8_t>(text[i])} << (8 * i);
    return value;
  }
  std::string_view take_text(uint64_t length) {
    if (length > static_cast<uint64_t>(limits_.max_text))
      fail(fmt::format("a string of {} bytes is longer than the limit of {}", length, limits_.max_text));
    return take(length);
  }
  std::string_view take_line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + position_, bytes_.size() - position_);
    const size_t end = rest.substr(0, 1024).find('\n');
    if (end == std::string_view::npos) fail("a name has no end");
    position_ += end + 1;
    return rest.substr(0, end);
  }

  // --- stack
  PickleValue add(PickleKind kind, int64_t integer = 0) {
    const int64_t count = static_cast<int64_t>(pickle_.nodes_.size());
    if (count >= limits_.max_values) fail(fmt::format("more than {} values", limits_.max_values));
    pickle_.nodes_.push_back({.kind = kind, .value = integer});
    return static_cast<PickleValue>(count);
  }
  PickleValue add_text(PickleKind kind, std::string_view text) {
    const PickleValue value = add(kind, static_cast<int64_t>(pickle_.texts_.size()));
    pickle_.texts_ += text;
    node(value).count = static_cast<uint32_t>(text.size());
    return value;
  }
  PickleValue add_parent(PickleKind kind, std::span<const PickleValue> children) {
    const PickleValue value = add(kind);
    add_children(node(value), children);
    return value;
  }
  // Children that come in several parts move to a vector of their own, so that each part costs its own length.
  void add_children(Node& parent, std::span<const PickleValue> more) {
    std::vector<PickleValue>& all = pickle_.children_;
    if (more.empty()) return;
    if (!parent.has_grown && parent.count > 0) {
      const auto before = pickle_.children_of(parent);
      pickle_.grown_.emplace_back(before.begin(), before.end());
      parent.has_grown = true;
      parent.value = static_cast<int64_t>(pickle_.grown_.size()) - 1;
    }
    if (parent.has_grown) {
      std::vector<PickleValue>& grown = pickle_.grown_[static_cast<size_t>(parent.value)];
      grown.insert(grown.end(), more.begin(), more.end());
      return;
    }
    parent.value = static_cast<int64_t>(all.size());
    parent.count = static_cast<uint32_t>(more.size());
    all.insert(all.end(), more.begin(), more.end());
  }
  void push(PickleValue value) { stack_.push_back(value); }
  PickleValue top() const {
    if (stack_.empty() || node(stack_.back()).kind == PickleKind::kMark) fail("the stack is empty");
    return stack_.back();
  }
  PickleValue pop() {
    const PickleValue value = top();
    stack_.pop_back();
    return value;
  }
  Node& node(PickleValue value) { return pickle_.nodes_[value]; }
  const Node& node(PickleValue value) const { return pickle_.nodes_[value]; }
  // Removes the values above the topmost mark, and the mark.
  std::vector<PickleValue> pop_to_mark() {
    size_t mark = stack_.size();
    while (mark > 0 && node(stack_[mark - 1]).kind != PickleKind::kMark) --mark;
    if (mark == 0) fail("there is no mark on the stack");
    std::vector<PickleValue> values(stack_.begin() + static_cast<ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return values;
  }

  std::string_view text_of(PickleValue value) const { return pickle_.text_of(node(value)); }
  std::span<const PickleValue> children_of(PickleValue value) const { return pickle_.children_of(node(value)); }
  // With room for a state.
  PickleValue add_object(PickleValue callable, PickleValue arguments) {
    const PickleValue object = add_parent(PickleKind::kObject, std::array{callable, arguments, PickleValue{0}});
    node(object).count = 2;
    return object;
  }

  // --- opcodes
  void push_tuple(std::span<const PickleValue> values) { push(add_parent(PickleKind::kTuple, values)); }
  void push_tuple_of(size_t count) {
    std::array<PickleValue, 3> values{};
    for (size_t i = count; i-- > 0;) values[i] = pop();
    push_tuple(std::span(values).first(count));
  }
  void append(std::span<const PickleValue> values) {
    Node& list = node(top());
    if (list.kind != PickleKind::kList) fail("items are added to something that is not a list");
    add_children(list, values);
  }
  void set_items(std::span<const PickleValue> values) {
    Node& dict = node(top());
    if (dict.kind != PickleKind::kDict) fail("items are set in something that is not a dict");
    if (values.size() % 2 != 0) fail("a key has no value");
    add_children(dict, values);
  }
  void push_global(const std::string& name) {
    if (!limits_.opaque && !is_known_global(name)) {
      fail(fmt::format("it names {}, which is not among the {} classes that tensor files use; nothing was run", name,
                       num_known_globals()));
    }
    push(add_text(PickleKind::kGlobal, name));
  }
  void push_object() {
    const PickleValue arguments = pop();
    const PickleValue callable = pop();
    if (node(arguments).kind != PickleKind::kTuple) fail("arguments are not a tuple");
    if (node(callable).kind != PickleKind::kGlobal) fail("something that is not a class is called");
    if (is_getattr(text_of(callable)) && !limits_.opaque) return push_enum_member(arguments);
    if (text_of(callable) == "collections.OrderedDict") {
      if (!children_of(arguments).empty()) fail("an OrderedDict with arguments");
      return push(add(PickleKind::kDict));
    }
    push(add_object(callable, arguments));
  }
  // getattr(enum, "NAME"): Python 3.11.0 to 3.11.3 pickle a member of an enum like this; others write enum(value).
  void push_enum_member(PickleValue arguments) {
    const auto parts = children_of(arguments);
    if (parts.size() != 2 || node(parts[0]).kind != PickleKind::kGlobal || !is_known_enum(text_of(parts[0])) ||
        node(parts[1]).kind != PickleKind::kString)
      fail("getattr of something that is not a member of an enum; nothing was run");
    const PickleValue enumeration = parts[0], member = parts[1];
    push(add_object(enumeration, add_parent(PickleKind::kTuple, std::array{member})));
  }
  void build() {
    const PickleValue state = pop();
    Node& object = node(top());
    // An OrderedDict's state is the `_metadata` that modules add to a state_dict; it is not needed.
    if (object.kind == PickleKind::kDict) return;
    if (object.kind != PickleKind::kObject) fail("a state is given to something that is not an object");
    if (object.count != 2) fail("an object gets a second state");
    pickle_.children_[static_cast<size_t>(object.value) + 2] = state;
    object.count = 3;
  }
  void memoize(uint64_t index) {
    if (index > memo_.size()) {
      sparse_memo_[index] = top();
      return;
    }
    if (index == memo_.size()) {
      memo_.push_back(0);
      sparse_memo_.erase(index);
    }
    memo_[index] = top();
  }
  void recall(uint64_t index) {
    if (index < memo_.size()) return push(memo_[index]);
    const auto found = sparse_memo_.find(index);
    if (found == sparse_memo_.end()) fail(fmt::format("memo {} was never stored", index));
    push(found->second);
  }
  PickleValue add_long(uint64_t length) {
    if (length > 8) fail(fmt::format("an integer of {} bytes; 8 are the most a tensor file needs", length));
    uint64_t value = little_endian(length);
    if (length > 0 && length < 8 && ((value >> (8 * length - 1)) & 1) != 0) value |= ~uint64_t{0} << (8 * length);
    return add(PickleKind::kInt, static_cast<int64_t>(value));
  }
  PickleValue add_float() {
    uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | static_cast<uint8_t>(c);
    return add(PickleKind::kFloat, static_cast<int64_t>(bits));
  }
  void stop() {
    pickle_.root_ = pop();
    if (!stack_.empty()) fail("values are left on the stack at the end");
    if (position_ != bytes_.size()) fail(fmt::format("{} bytes follow its end", bytes_.size() - position_));
    stopped_ = true;
  }

  void step(uint8_t opcode);
  std::optional<PickleValue> add_value(uint8_t opcode);
  bool step_memo(uint8_t opcode);

  std::span<const std::byte> bytes_;
  PickleLimits limits_;
  Pickle pickle_;
  std::vector<PickleValue> stack_;
  std::vector<PickleValue> memo_;  // Python numbers them from 0
  std::unordered_map<uint64_t, PickleValue> sparse_memo_;
  uint64_t position_ = 0, opcode_at_ = 0;
  bool stopped_ = false;
};

// The value that an opcode pushes without using the stack; empty for other opcodes.
std::optional<PickleValue> PickleParser::add_value(uint8_t opcode) {
  switch (opcode) {
    case kNone:
      return add(PickleKind::kNone);
    case kNewTrue:
    case kNewFalse:
      return add(PickleKind::kBool, opcode == kNewTrue);
    case kBinInt:
      return add(PickleKind::kInt, static_cast<int32_t>(little_endian(4)));
    case kBinInt1:
      return add(PickleKind::kInt, static_cast<int64_t>(little_endian(1)));
    case kBinInt2:
      return add(PickleKind::kInt, static_cast<int64_t>(little_endian(2)));
    case kLong1:
      return add_long(little_endian(1));
    case kBinFloat:
      return add_float();
    case kShortBinString:
    case kShortBinBytes:
    case kShortBinUnicode:
      return add_text(PickleKind::kString, take_text(little_endian(1)));
    case kBinUnicode:
    case kBinBytes:
      return add_text(PickleKind::kString, take_text(little_endian(4)));
    case kBinUnicode8:
    case kBinBytes8:
      return add_text(PickleKind::kString, take_text(little_endian(8)));
    case kEmptyList:
      return add(PickleKind::kList);
    case kEmptyDict:
      return add(PickleKind::kDict);
    case kEmptyTuple:
      return add(PickleKind::kTuple);
    case kMark:
      return add(PickleKind::kMark);
    default:
      return std::nullopt;
  }
}

// Opcodes that store into the memo or push from it. False: another opcode.
bool PickleParser::step_memo(uint8_t opcode) {
  switch (opcode) {
    case kMemoize:
      memoize(memo_.size() + sparse_memo_.size());
      return true;
    case kBinPut:
      memoize(little_endian(1));
      return true;
    case kLongBinPut:
      memoize(little_endian(4));
      return true;
    case kBinGet:
      recall(little_endian(1));
      return true;
    case kLongBinGet:
      recall(little_endian(4));
      return true;
    default:
      return false;
  }
}

void PickleParser::step(uint8_t opcode) {
  if (const auto value = add_value(opcode)) return push(*value);
  if (step_memo(opcode)) return;
  switch (opcode) {
    case kProto: {
      const uint64_t protocol = little_endian(1);
      if (protocol < 2 || protocol > kHighestProtocol) fail(fmt::format("protocol {}; 2 to 5 are known", protocol));
      return;
    }
    case kFrame:
      if (little_endian(8) > bytes_.size() - position_) fail("a frame is longer than the file");
      return;
    case kStop:
      return stop();
    case kPop:
      // Python pops a mark, too.
      if (stack_.empty()) fail("the stack is empty");
      return stack_.pop_back();
    case kPopMark:
      pop_to_mark();
      return;
    case kDup:
      return push(top());
    case kTuple:
      return push_tuple(pop_to_mark());
    case kTuple1:
      return push_tuple_of(1);
    case kTuple2:
      return push_tuple_of(2);
    case kTuple3:
      return push_tuple_of(3);
    case kAppend:
      return append(std::array{pop()});
    case kAppends:
      return append(pop_to_mark());
    case kSetItem: {
      const PickleValue value = pop();
      return set_items(std::array{pop(), value});
    }
    case kSetItems:
      return set_items(pop_to_mark());
    case kGlobal: {
      const std::string module(take_line());
      return push_global(module + "." + std::string(take_line()));
    }
    case kStackGlobal: {
      const PickleValue name = pop();
      const PickleValue module = pop();
      if (node(name).kind != PickleKind::kString || node(module).kind != PickleKind::kString)
        fail("the name of a class is not a string");
      return push_global(fmt::format("{}.{}", text_of(module), text_of(name)));
    }
    case kReduce:
    case kNewObj:
      return push_object();
    case kBuild:
      return build();
    case kBinPersId: {
      const PickleValue id = pop();
      return push(add_parent(PickleKind::kPersistent, std::array{id}));
    }
    default:
      fail(fmt::format("opcode 0x{:02x} is not one that tensor files use", opcode));
  }
}

Pickle Pickle::parse(std::span<const std::byte> bytes, const std::string& origin, const PickleLimits& limits) {
  return PickleParser(bytes, origin, limits).run();
}

}  // namespace hearth::formats
