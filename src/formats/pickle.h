// SPDX-License-Identifier: Apache-2.0
// Python pickles as data. The reader builds a tree of values and never runs code: a class is only a name. Unless the
// limits say otherwise, only names on its list are accepted. Every length is checked against the input, and memory is
// bounded by the input's size: 16 bytes a value, and 4 for each place in a list, tuple or dict that names it. Protocols
// 2 to 5; opcodes that PyTorch's files do not need are refused. Source of the format: CPython's Lib/pickletools.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hearth::formats {

enum class PickleKind : uint8_t {
  kNone,
  kBool,        // integer
  kInt,         // integer
  kFloat,       // integer: its bits
  kString,      // text (UTF-8) or bytes
  kList,        // children
  kTuple,       // children
  kDict,        // children: key, value, key, value, ...; also collections.OrderedDict
  kGlobal,      // text: "module.name", from the list of known names
  kObject,      // children: class or function, arguments, [state]
  kPersistent,  // children: the persistent id; torch's storages
  kMark         // only while reading
};

// A value is an index into its Pickle. Shared and even cyclic structures are safe: there is no recursion.
using PickleValue = uint32_t;

struct PickleLimits {
  int64_t max_bytes = int64_t{1} << 30;
  int64_t max_text = int64_t{1} << 20;    // one string
  int64_t max_values = int64_t{1} << 24;  // at most one per input byte
  // Any class may be named, and becomes an object like the known ones. For files where only some values matter.
  bool opaque = false;
};

class Pickle {
 public:
  // Throws damaged() naming `origin`, the byte offset and the error there.
  static Pickle parse(std::span<const std::byte> bytes, const std::string& origin, const PickleLimits& limits = {});

  PickleValue root() const { return root_; }
  PickleKind kind(PickleValue value) const { return nodes_[value].kind; }

  // Each throws damaged() unless the value is of that kind; `what` names the expected value in the message.
  int64_t integer(PickleValue value, std::string_view what) const;
  double number(PickleValue value, std::string_view what) const;  // an integer or a float
  std::string_view text(PickleValue value, std::string_view what) const;
  std::string_view global(PickleValue value, std::string_view what) const;
  std::span<const PickleValue> sequence(PickleValue value, std::string_view what) const;  // list or tuple
  std::span<const PickleValue> pairs(PickleValue value, std::string_view what) const;     // dict
  // An object of class `name`, or made by function `name`: its arguments (a tuple) and its state.
  struct Object {
    std::string_view name;
    std::span<const PickleValue> arguments;
    PickleValue state;
    bool has_state;
  };
  Object object(PickleValue value, std::string_view what) const;
  PickleValue persistent_id(PickleValue value, std::string_view what) const;
  // The value of a string key in a dict. at() throws damaged() if the key is missing; find_key() returns false.
  PickleValue at(PickleValue dict, std::string_view key, std::string_view what) const;
  bool find_key(PickleValue dict, std::string_view key, PickleValue& value) const;

  const std::string& origin() const { return origin_; }

 private:
  friend class PickleParser;
  // Small, since the metadata of thousands of ranks has tens of millions of values.
  struct Node {
    PickleKind kind = PickleKind::kNone;
    bool has_grown = false;  // a list or dict that got children more than once: they are in grown_
    uint32_t count = 0;      // bytes of a text; children, if they are in children_
    int64_t value = 0;       // an integer, a float's bits, or where the text or the children begin
  };
  const Node& expect(PickleValue value, PickleKind kind, std::string_view kind_name, std::string_view what) const;
  std::string_view text_of(const Node& node) const {
    return std::string_view(texts_).substr(static_cast<size_t>(node.value), node.count);
  }
  std::span<const PickleValue> children_of(const Node& node) const;

  std::string origin_;
  std::vector<Node> nodes_;
  std::string texts_;
  std::vector<PickleValue> children_;
  std::vector<std::vector<PickleValue>> grown_;
  PickleValue root_ = 0;
};

// Writes protocol 2, which every PyTorch reads, weights_only included. Calls follow the stack machine: push the parts,
// then combine them. Strings and globals are memoized.
class PickleWriter {
 public:
  void none() { put('N'); }
  void boolean(bool value) { put(value ? '\x88' : '\x89'); }
  void integer(int64_t value);
  void real(double value);
  void string(std::string_view text);
  void global(std::string_view module, std::string_view name);
  void mark() { put('('); }          // then items, then one of:
  void tuple() { put('t'); }         //   all since the mark
  void append_items() { put('e'); }  //   to the list below the mark
  void set_items() { put('u'); }     //   key, value, ... into the dict below the mark
  void empty_tuple() { put(')'); }
  void empty_list() { put(']'); }
  void empty_dict() { put('}'); }
  void reduce() { put('R'); }         // callable, tuple -> object
  void new_object() { put('\x81'); }  // class, tuple -> object
  void build() { put('b'); }          // object, state -> object
  void persistent_id() { put('Q'); }  // id -> object
  // Combinations: a dict of what `push_items` pushes, key, value, ...; an instance of a class, and one with such a
  // dict as its state; a tuple of integers; torch.Size of integers.
  template <class PushItems>
  void dict(const PushItems& push_items) {
    empty_dict();
    mark();
    push_items();
    set_items();
  }
  void instance(std::string_view module, std::string_view name);
  template <class PushItems>
  void instance(std::string_view module, std::string_view name, const PushItems& push_items) {
    instance(module, name);
    dict(push_items);
    build();
  }
  void integers(std::span<const int64_t> values);
  void size(std::span<const int64_t> values);
  std::string finish();  // the pickle; the writer is then empty

 private:
  void put(char opcode) { out_.push_back(opcode); }
  void put(char opcode, uint64_t argument, int width);             // little-endian
  void put_memo(char narrow_opcode, char opcode, uint32_t index);  // of one byte, or of four
  bool recall(const std::string& key);
  void remember(const std::string& key);
  std::string out_ = "\x80\x02";
  std::unordered_map<std::string, uint32_t> memo_;
};

}  // namespace hearth::formats
