// SPDX-License-Identifier: Apache-2.0
// Access to a parsed pickle; pickle_reader.cpp parses it.
#include "formats/pickle.h"

#include <fmt/format.h>

#include <bit>

#include "base/error.h"

namespace hearth::formats {

const Pickle::Node& Pickle::expect(PickleValue value, PickleKind kind, std::string_view kind_name,
                                   std::string_view what) const {
  const Node& node = nodes_[value];
  if (node.kind != kind) throw damaged(fmt::format("{}: {} is not {}", origin_, what, kind_name));
  return node;
}

std::span<const PickleValue> Pickle::children_of(const Node& node) const {
  const auto first = static_cast<size_t>(node.value);
  return node.has_grown ? std::span(grown_[first]) : std::span(children_).subspan(first, node.count);
}

int64_t Pickle::integer(PickleValue value, std::string_view what) const {
  return expect(value, PickleKind::kInt, "an integer", what).value;
}
double Pickle::number(PickleValue value, std::string_view what) const {
  if (kind(value) == PickleKind::kFloat) return std::bit_cast<double>(nodes_[value].value);
  return static_cast<double>(expect(value, PickleKind::kInt, "a number", what).value);
}
std::string_view Pickle::text(PickleValue value, std::string_view what) const {
  return text_of(expect(value, PickleKind::kString, "a string", what));
}
std::string_view Pickle::global(PickleValue value, std::string_view what) const {
  return text_of(expect(value, PickleKind::kGlobal, "a class", what));
}
std::span<const PickleValue> Pickle::sequence(PickleValue value, std::string_view what) const {
  if (kind(value) == PickleKind::kTuple) return children_of(nodes_[value]);
  return children_of(expect(value, PickleKind::kList, "a list", what));
}
std::span<const PickleValue> Pickle::pairs(PickleValue value, std::string_view what) const {
  return children_of(expect(value, PickleKind::kDict, "a dict", what));
}
PickleValue Pickle::persistent_id(PickleValue value, std::string_view what) const {
  return children_of(expect(value, PickleKind::kPersistent, "a storage", what))[0];
}

Pickle::Object Pickle::object(PickleValue value, std::string_view what) const {
  const auto parts = children_of(expect(value, PickleKind::kObject, "an object", what));
  const bool has_state = parts.size() == 3;
  return {text_of(nodes_[parts[0]]), children_of(nodes_[parts[1]]), has_state ? parts[2] : 0, has_state};
}

bool Pickle::find_key(PickleValue dict, std::string_view key, PickleValue& value) const {
  const std::span<const PickleValue> items = pairs(dict, "a state");
  bool found = false;
  for (size_t i = 0; i < items.size(); i += 2) {
    const Node& node = nodes_[items[i]];
    // The last one wins, as in Python.
    if (node.kind == PickleKind::kString && text_of(node) == key) value = items[i + 1], found = true;
  }
  return found;
}
PickleValue Pickle::at(PickleValue dict, std::string_view key, std::string_view what) const {
  PickleValue value = 0;
  if (!find_key(dict, key, value)) throw damaged(fmt::format("{}: {} has no \"{}\"", origin_, what, key));
  return value;
}

}  // namespace hearth::formats
