// SPDX-License-Identifier: Apache-2.0
#include "data/formats/table_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "base/error.h"
#include "data/order/window_table.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/failpoint.h"
#include "support/text_file.h"

namespace hearth::data {
namespace {

using test::error_of;
using test::ScratchFolder;

TableArrays numbers(uint32_t first) {
  TableArrays table;
  table.emplace_back(std::vector<uint64_t>{7, uint64_t{1} << 60});
  table.emplace_back(std::vector<uint32_t>{first, 2, 3});  // 12 bytes: not a multiple of 8
  table.emplace_back(std::vector<uint32_t>{});
  return table;
}

bool equal(const TableArrays& a, const TableArrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TableArray& x, const TableArray& y) {
    return std::equal(x.bytes().begin(), x.bytes().end(), y.bytes().begin(), y.bytes().end());
  });
}

TEST(TableFile, WhatIsWrittenIsRead) {
  const ScratchFolder scratch;
  write_table(scratch / "a", "key", numbers(1));
  EXPECT_TRUE(equal(read_table(scratch / "a", "key"), numbers(1)));
  EXPECT_EQ(list_folder(scratch), std::vector<std::string>{"a"});
}

TEST(TableFile, AnyByteThatChangedAndAnyOtherKeyOrLengthIsDamage) {
  const ScratchFolder scratch;
  write_table(scratch / "a", "key", numbers(1));
  EXPECT_EQ(error_of([&] { read_table(scratch / "a", "kex"); }).why(), "it was made from other data");
  const std::string whole = read_file(scratch / "a");
  const size_t padding = whole.size() - 4;  // after the array of 12 bytes
  for (size_t i = 0; i < padding; ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 4);
    test::write_text(scratch / "a", bytes);
    EXPECT_EQ(error_of([&] { read_table(scratch / "a", "key"); }).code(), ExitCode::kDamaged) << i;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    test::write_text(scratch / "a", whole.substr(0, size));
    EXPECT_EQ(error_of([&] { read_table(scratch / "a", "key"); }).code(), ExitCode::kDamaged) << size;
  }
  test::write_text(scratch / "a", whole + '\0');
  EXPECT_EQ(error_of([&] { read_table(scratch / "a", "key"); }).code(), ExitCode::kDamaged);
}

// The result and the note of keep_table.
struct Kept {
  TableNote note;
  TableArrays table;
  explicit Kept(const Path& folder, const std::string& key = "key") {
    keep_table(
        folder, "test", key, note, [&] { return numbers(static_cast<uint32_t>(key.size())); },
        [&](TableArrays read) {
          if (read[0].as<uint64_t>()[0] != 7) throw damaged("it makes no sense");
          table = std::move(read);
        });
    EXPECT_TRUE(equal(table, numbers(static_cast<uint32_t>(key.size()))));
  }
};

TEST(TableFile, ATableIsMadeOnceForEachKeyAndAgainWhereItIsDamaged) {
  const ScratchFolder scratch;
  const Path folder = scratch / "tables";
  EXPECT_TRUE(Kept(folder).note.built);
  EXPECT_FALSE(Kept(folder).note.built);
  EXPECT_TRUE(Kept(folder, "other").note.built);
  EXPECT_EQ(list_folder(folder).size(), 2u);
  for (const std::string& name : list_folder(folder)) test::write_text(folder / name, "HRTHTABL");
  const Kept again(folder);
  EXPECT_TRUE(again.note.built);
  EXPECT_TRUE(again.note.damage.ends_with(".table is damaged")) << again.note.damage;
  EXPECT_FALSE(Kept(folder).note.built);

  // Whole, with the right key, but with meaningless numbers.
  TableArrays senseless;
  senseless.emplace_back(std::vector<uint64_t>{8});
  for (const std::string& name : list_folder(folder)) write_table(folder / name, "key", senseless);
  EXPECT_EQ(Kept(folder).note.damage, "it makes no sense");
  EXPECT_TRUE(Kept(folder).note.damage.empty());
}

TEST(TableFile, WhereItCannotBeKeptItIsUsedAndNothingIsLeftBehind) {
  const ScratchFolder scratch;
  int64_t call = 0;
  for (bool failed = true; failed;) {
    failpoint::arm(++call, ENOSPC);
    const Kept kept(scratch / "tables");
    failed = failpoint::calls() >= call;
    failpoint::disarm();
    EXPECT_TRUE(kept.note.built);
    EXPECT_EQ(kept.note.unkept.empty(), !failed) << call;
    if (path_exists(scratch / "tables")) {
      for (const std::string& name : list_folder(scratch / "tables")) EXPECT_TRUE(name.ends_with(".table")) << name;
    }
    remove_tree(scratch / "tables");
  }
  EXPECT_GT(call, 8);

  ASSERT_EQ(::chmod(scratch.path().c_str(), 0555), 0);
  const bool is_root = ::geteuid() == 0;  // no mode stops root
  EXPECT_EQ(Kept(scratch / "tables").note.unkept.empty(), is_root);
  ::chmod(scratch.path().c_str(), 0755);
}

TEST(TableFile, ManyWhoWriteTheSameTableAtOnceLeaveOneThatIsWhole) {
  const ScratchFolder scratch;
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back([&] {
      for (int k = 0; k < 20; ++k) write_table(scratch / "a", "key", numbers(1));
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(equal(read_table(scratch / "a", "key"), numbers(1)));
  EXPECT_EQ(list_folder(scratch).size(), 1u);
}

TEST(WindowTable, ATableThatPointsOutsideIsDamage) {
  const auto opens = [](const std::vector<RowPart>& parts, int64_t epochs = 1, std::vector<uint32_t> order = {}) {
    WindowTableBuilder builder;
    for (const RowPart& part : parts) builder.add(part);
    builder.end_window();
    try {
      WindowTable(builder.finish(epochs, std::move(order)), 100, 10);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kDamaged);
      return false;
    }
    return true;
  };
  EXPECT_TRUE(opens({{0, 10, true}}));
  EXPECT_TRUE(opens({{90, 10, false}}));
  EXPECT_TRUE(opens({{0, 4, false}, {50, 6, true}, {70, 0, true}}, 3, {0}));
  EXPECT_FALSE(opens({}));
  EXPECT_FALSE(opens({{90, 10, true}}));  // reads token 100
  EXPECT_FALSE(opens({{0, 11, false}}));  // more than a row has
  EXPECT_FALSE(opens({{0, 6, false}, {0, 5, false}}));
  EXPECT_FALSE(opens({{0, 0, false}}));
  EXPECT_FALSE(opens({{0, 0, true}}));  // a label without a position
  EXPECT_FALSE(opens({{0, 10, true}}, 0));
  EXPECT_FALSE(opens({{0, 10, true}}, 1, {1}));
  EXPECT_FALSE(opens({{0, 10, true}}, 1, {0, 0}));
  EXPECT_THROW(WindowTable({}, 100, 10), Error);
}

}  // namespace
}  // namespace hearth::data
