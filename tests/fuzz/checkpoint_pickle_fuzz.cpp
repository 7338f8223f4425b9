// SPDX-License-Identifier: Apache-2.0
// The unpickler: whatever it accepts, every value of it can be visited.
#include "checkpoint/example.h"
#include "formats/pickle.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

using formats::Pickle;
using formats::PickleKind;
using formats::PickleValue;

std::vector<PickleValue> parts(const Pickle& pickle, PickleValue value) {
  std::vector<PickleValue> found;
  const auto append = [&](std::span<const PickleValue> more) { found.insert(found.end(), more.begin(), more.end()); };
  switch (pickle.kind(value)) {
    case PickleKind::kList:
    case PickleKind::kTuple:
      append(pickle.sequence(value, "it"));
      break;
    case PickleKind::kDict:
      append(pickle.pairs(value, "it"));
      break;
    case PickleKind::kObject: {
      const Pickle::Object object = pickle.object(value, "it");
      append(object.arguments);
      if (object.has_state) found.push_back(object.state);
      break;
    }
    case PickleKind::kPersistent:
      found.push_back(pickle.persistent_id(value, "it"));
      break;
    case PickleKind::kString:
      require(pickle.text(value, "it").size() <= formats::PickleLimits{}.max_text, "a string beyond the limit");
      break;
    case PickleKind::kGlobal:
      require(!pickle.global(value, "it").empty(), "a class without a name");
      break;
    default:
      accepted([&] { pickle.integer(value, "it"); });
  }
  return found;
}

}  // namespace

void run(std::string_view input) {
  accepted([&] {
    const Pickle pickle = Pickle::parse(std::as_bytes(std::span(input)), "fuzz");
    std::vector<PickleValue> open{pickle.root()};
    std::vector<bool> seen;
    while (!open.empty()) {
      const PickleValue value = open.back();
      open.pop_back();
      if (seen.size() <= value) seen.resize(value + 1);
      if (seen[value]) continue;
      seen[value] = true;
      require(seen.size() <= input.size() + 1, "more values than bytes");
      accepted([&] {
        for (const PickleValue part : parts(pickle, value)) open.push_back(part);
      });
    }
  });
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  formats::PickleWriter writer;
  writer.empty_dict();
  writer.mark();
  writer.string("size");
  writer.size(std::vector<int64_t>{1, -5, 300, int64_t{1} << 40});
  writer.string("list");
  writer.empty_list();
  writer.mark();
  writer.none();
  writer.boolean(true);
  writer.append_items();
  writer.set_items();
  // Protocol 4, as Python writes {"a": (1.5, b"x", ["a"])}: frames, short strings and a memo.
  const std::string protocol_4 =
      "\x80\x04\x95\x20\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01"
      "a\x94G?\xf8\x00\x00\x00\x00\x00\x00"
      "C\x01x\x94]\x94h\x01"
      "a\x87\x94s."s;
  const Path folder = checkpoint::save_example(scratch(), checkpoint::example_tensors(), 1, 3);
  return {writer.finish(), protocol_4, read_file(folder / checkpoint::kMetadataFile)};
}

}  // namespace hearth::fuzz
