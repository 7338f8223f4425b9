// SPDX-License-Identifier: Apache-2.0
// Tables with several columns of one name, written by pyarrow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/arrow_support.h"
#include "data/corpus_folder.h"
#include "data/read_source.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

TEST(EqualColumns, ThatAreWantedAreRefusedByName) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const std::string code = fmt::format(
      "-c \"import pyarrow as a, pyarrow.parquet as p\n"
      "s = a.array([{{'b': 'x'}}])\n"
      "t = a.Table.from_arrays([a.array(['one']), a.array(['two']), s, s, a.array(['three'])], "
      "['text', 'text', 'meta', 'meta', 'id'])\n"
      "p.write_table(t, '{0}/x.parquet')\n"
      "w = a.ipc.new_file('{0}/x.arrow', t.schema)\n"
      "w.write_table(t)\n"
      "w.close()\"",
      scratch.path().string());
  const auto written = test::run_python(code);
  ASSERT_EQ(written.exit_code, 0) << written.output;
  for (const char* name : {"x.parquet", "x.arrow"}) {
    ReadRules rules;
    for (const char* key : {"text", "meta.b"}) {
      rules.text_keys = {key};
      const Error e = test::error_of([&] { open_source(found_file(scratch / name, rules), rules); });
      EXPECT_EQ(e.code(), ExitCode::kUser);
      EXPECT_THAT(e.message(), HasSubstr(fmt::format("{} has 2 columns \"{}\"", name, key)));
    }
    rules.text_keys = {"id"};
    EXPECT_EQ(texts_of(read_source(found_file(scratch / name, rules), rules)), std::vector<std::string>{"three"});
  }
}

}  // namespace
}  // namespace hearth::data
