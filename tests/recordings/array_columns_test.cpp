// SPDX-License-Identifier: Apache-2.0
// Arrays of spike counts in Parquet, Arrow and save_to_disk give the same as .npy files and as NumPy's restatement.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstring>

#include "data/arrow_support.h"
#include "data/shard/shard_reader.h"
#include "recordings/spike_folder.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

BuildRules table_rules(int64_t n_fixed = 0) {
  BuildRules rules = spikes(n_fixed);
  rules.read.text_keys.clear();  // as on the command line without --text-key
  return rules;
}

struct Built {
  std::string identity;
  std::vector<int32_t> tokens;
  std::vector<ArrayInfo> arrays;
};

Built built(const Path& out, const std::vector<Path>& paths, const BuildRules& rules,
            int64_t portion_bytes = int64_t{64} << 20) {
  build(out, paths, rules, 2, true, portion_bytes);
  const Dataset dataset = Dataset::open(out);
  const Split& split = dataset.split("train");
  Built result{dataset.manifest().identity, std::vector<int32_t>(static_cast<size_t>(split.tokens())), {}};
  split.read(0, result.tokens, {3, 1});
  for (int64_t i = 0; i < split.documents(); ++i) result.arrays.push_back(split.array(i));
  return result;
}

void expect_equal(const Built& a, const Built& b) {
  EXPECT_EQ(a.identity, b.identity);
  EXPECT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (size_t i = 0; i < a.arrays.size(); ++i) {
    EXPECT_EQ(a.arrays[i].shape, b.arrays[i].shape) << i;
    EXPECT_EQ(a.arrays[i].labels, b.arrays[i].labels) << i;
  }
}

// The tokens of spikes_reference.py from the .npy files.
std::vector<int32_t> numpys(const Path& folder, int64_t n_fixed, const std::string& identity) {
  const std::string out = folder.string() + "-expected";
  run_oracle("../recordings/spikes_reference.py",
             fmt::format("tokens {} 256 {} - 3 1 {}/train {}", folder.string(), n_fixed, identity, out));
  const std::string bytes = read_file(out);
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

TEST(ArrayColumns, EveryContainerOfTheSameArraysGivesTheSameDataset) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const Path varied = scratch / "varied", equal = scratch / "equal";
  run_oracle("../recordings/spikes_reference.py", "make " + varied.string());
  run_oracle("../recordings/array_columns_reference.py", "equal_bins " + equal.string());
  for (const Path& folder : {varied, equal}) {  // the second one as Array2D
    const Path tables = folder.string() + "-tables";
    run_oracle("../recordings/array_columns_reference.py",
               fmt::format("write {} {}", folder.string(), tables.string()));
    for (const int64_t n_fixed : {0, 16}) {
      const Built npy = built(scratch / "out", {folder}, spikes(n_fixed));
      EXPECT_EQ(npy.tokens, numpys(folder, n_fixed, npy.identity));
      for (const char* name : {"a.parquet", "b.parquet", "c.arrow", "d.arrows", "saved", "saved.parquet"}) {
        SCOPED_TRACE(folder.string() + " " + name);
        const int64_t portion_bytes = n_fixed == 0 ? 1 : 64 << 20;  // pieces of a file, or whole ones
        expect_equal(built(scratch / "out", {tables / name}, table_rules(n_fixed), portion_bytes), npy);
      }
    }
  }
}

TEST(ArrayColumns, AVocabularyOfPatchesIsThatOfTheNpyFilesAndGivesTheSameIds) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const Path folder = scratch / "rec", tables = scratch / "tables";
  run_oracle("../recordings/spikes_reference.py", "make " + folder.string());
  run_oracle("../recordings/array_columns_reference.py", fmt::format("write {} {}", folder.string(), tables.string()));
  const auto train = [&](const Path& source, const std::string& options) {
    const Path out = scratch / "learned";
    const auto run = test::run_command(
        fmt::format("{} tokenizer train --kind patches --patch 1x15 --vocab-size 60 --overwrite {} --out {} {}",
                    test::hearth_binary(), options, out.string(), source.string()));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return read_file(out);
  };
  const std::string vocabulary = train(folder, "");
  EXPECT_EQ(train(tables / "a.parquet", ""), vocabulary);
  EXPECT_EQ(train(tables / "saved", "--text-key spike_counts"), vocabulary);
  const std::string of_one = train(folder, "--source-dataset ibl");
  EXPECT_NE(of_one, vocabulary);
  EXPECT_EQ(train(tables / "d.arrows", "--source-dataset ibl"), of_one);
  write_text(scratch / "tokenizer.patches", vocabulary);
  BuildRules rules = table_rules(21);
  rules.tokenizer = (scratch / "tokenizer.patches").string();
  const Built npy = built(scratch / "out", {folder}, rules);
  EXPECT_GT(*std::max_element(npy.tokens.begin(), npy.tokens.end()), 50);
  expect_equal(built(scratch / "out", {tables / "b.parquet"}, rules), npy);
}

TEST(ArrayColumns, LabelsAreStringsOrIntegersAndChooseRows) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const Path tables = scratch / "tables";
  run_oracle("../recordings/array_columns_reference.py", "labels " + tables.string());
  for (const char* name : {"good.parquet", "good.arrows"}) {
    const Built result = built(scratch / "out", {tables / name}, table_rules());
    ASSERT_EQ(result.arrays.size(), 3U);
    EXPECT_EQ(result.arrays[0].labels, (recordings::ArrayLabels{"7", "a", "x", ""}));
    EXPECT_EQ(result.arrays[1].labels, (recordings::ArrayLabels{"", "", "", ""}));
    EXPECT_EQ(result.arrays[2].labels, (recordings::ArrayLabels{"-1", "a", "y", ""}));
  }
  const std::string bad = (tables / "bad.parquet").string();
  BuildRules rules = table_rules();
  const Error no_text = error_of([&] { build(scratch / "out", {bad}, rules, 1, true); });
  EXPECT_EQ(no_text.message(), bad + ": row 1: its subject_id has bytes that are not UTF-8");
  rules.on_error = OnError::kReplace;
  const Built repaired = built(scratch / "out", {bad}, rules);
  ASSERT_EQ(repaired.arrays.size(), 3U) << "another one has no UTF-8 and a count that equals BOS";
  EXPECT_EQ(repaired.arrays[1].labels[0], "\xEF\xBF\xBDy");
  rules.on_error = OnError::kSkip;
  EXPECT_EQ(built(scratch / "out", {bad}, rules).arrays.size(), 2U);
  const Error of_floats = error_of([&] { build(scratch / "out", {tables / "float.parquet"}, rules, 1, true); });
  EXPECT_EQ(of_floats.code(), ExitCode::kUser);
  EXPECT_THAT(of_floats.message(), HasSubstr("float.parquet has no text in column \"segment_id\""));
  EXPECT_EQ(of_floats.why(), "it is double, and says what an array is a recording of");
}

TEST(ArrayColumns, ARowThatIsNoArrayIsNamedWithWhatIsWrongOrIsSkipped) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const Path tables = scratch / "tables";
  run_oracle("../recordings/array_columns_reference.py", "wrong " + tables.string());
  const std::vector<std::pair<std::string, std::string>> reasons = {
      {"ragged", "row 1: neuron 1 has 1 time bins, and neuron 0 has 2"},
      {"null", "row 2: is null"},
      {"null neuron", "row 3: neuron 1 is null"},
      {"null count", "row 4: neuron 0 has a null in time bin 1"},
      {"negative", "row 5: neuron 0 has -1 in time bin 0, and counts are 0 to 255"},
      {"large", "row 6: neuron 1 has 256 in time bin 0, and counts are 0 to 255"},
      {"bos", "row 7: neuron 1 has the count 255 in time bin 0, but 255 is BOS"},
      {"nobody", "row 8: it has no neurons"},
      {"long", "row 9: it has more than 1000 bytes (--max-record-bytes)"}};
  for (const char* name : {"x.parquet", "x.arrow"}) {
    const std::string path = (tables / name).string();
    BuildRules rules = table_rules();
    rules.read.max_record_bytes = 1000;
    for (const auto& [source_dataset, reason] : reasons) {
      rules.source_dataset = source_dataset;  // the other rows are left out, even invalid ones
      const Error e = error_of([&] { build(scratch / "out", {path}, rules, 1, true); });
      EXPECT_EQ(e.code(), ExitCode::kUser);
      EXPECT_EQ(e.message(), path + ": " + reason);
    }
    rules.source_dataset = "good";
    EXPECT_EQ(built(scratch / "out", {path}, rules).tokens, (std::vector<int32_t>{255, 1, 3, 255, 2, 4}));
    EXPECT_EQ(error_of([&] { build(scratch / "out", {path}, spikes(), 1, true); }).message(),
              path + " has no column \"text\"");
    rules.source_dataset.clear();
    EXPECT_EQ(error_of([&] { build(scratch / "out", {path}, rules, 1, true); }).message(),
              path + ": " + reasons[0].second);
    for (const OnError on_error : {OnError::kSkip, OnError::kReplace}) {
      rules.on_error = on_error;
      const auto skipped = build(scratch / "out", {path}, rules, 1, true).manifest.records.skipped;
      EXPECT_EQ(skipped[static_cast<size_t>(RecordProblem::kWrongType)], 7);
      EXPECT_EQ(skipped[static_cast<size_t>(RecordProblem::kMissingKey)], 1);
      EXPECT_EQ(skipped[static_cast<size_t>(RecordProblem::kTooLong)], 1);
      EXPECT_EQ(Dataset::open(scratch / "out").split("train").documents(), 1);
    }
  }
}

TEST(ArrayColumns, AColumnOfSomethingElseIsRefusedWithItsType) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  run_oracle("../recordings/array_columns_reference.py", "wrong " + (scratch / "tables").string());
  const Path other = scratch / "tables" / "other.parquet";
  const auto refused = [&](std::vector<std::string> keys, const std::string& tokenizer = "spikes") {
    BuildRules rules = spikes();
    rules.tokenizer = tokenizer;
    rules.read.text_keys = std::move(keys);
    return error_of([&] { build(scratch / "out", {other}, rules, 1, true); });
  };
  EXPECT_EQ(refused({}).message(), other.string() + " has no column \"spike_counts\"");
  const std::string neither = ", neither strings nor lists of token ids nor lists of lists of counts";
  EXPECT_EQ(refused({"deep"}).why(), "it is list<element: list<element: list<element: uint8>>>" + neither);
  EXPECT_EQ(refused({"floats"}).why(), "it is list<element: list<element: float>>" + neither);
  EXPECT_EQ(refused({"inside.counts"}).why(), "inside of a list it is list<element: list<element: uint8>>" + neither);
  EXPECT_EQ(refused({"ids"}).message(), other.string() + " is not an array");
  EXPECT_EQ(refused({"text"}).message(), other.string() + " is not an array");
  const Path arrays = scratch / "tables" / "x.parquet";
  BuildRules text;
  text.read.text_keys = {"spike_counts"};
  EXPECT_EQ(error_of([&] { build(scratch / "out", {arrays}, text, 1, true); }).message(),
            arrays.string() + " is an array");
  text.read.text_keys = {"source_dataset", "spike_counts"};
  const Error joined = error_of([&] { build(scratch / "out", {arrays}, text, 1, true); });
  EXPECT_EQ(joined.message(), arrays.string() + " has arrays in column \"spike_counts\"");
  EXPECT_EQ(joined.why(), "only texts can be joined");
}

TEST(ArrayColumns, ArraysOfZerosInAFewBytesAreReadOneAfterTheOther) {
  HEARTH_NEEDS_ARROW();
  const ScratchFolder scratch;
  const Path path = scratch / "zeros.parquet";
  run_oracle("../recordings/array_columns_reference.py", "zeros " + path.string());
  SourceFile file;
  file.path = file.real_path = path.string();
  file.size_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  file.format = Format::kParquet;
  EXPECT_LT(file.size_bytes, 10'000);
  ReadRules rules;
  rules.text_keys = {"spike_counts"};
  rules.max_record_bytes = 1'000'000;
  const auto read = [&] {
    const auto reader = open_source(file, rules);
    int64_t rows = 0;
    for (Record record; reader->next(record); ++rows) {
      if (record.problem != RecordProblem::kNone) return std::string(problem_name(record.problem)) + " " + record.why;
      EXPECT_EQ(record.array->shape, (recordings::ArrayShape{1000, 1000}));
    }
    return fmt::format("{}", rows);
  };
  EXPECT_EQ(read(),
            "unreadable decoding it takes more than 8194304 bytes of memory (a larger --max-record-bytes "
            "allows more)");
  rules.max_record_bytes = ReadRules().max_record_bytes;  // with room for all of them
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_EQ(read(), "30");
  ::getrusage(RUSAGE_SELF, &after);
#ifndef __SANITIZE_ADDRESS__                              // it keeps freed memory
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 50'000);  // KiB; all of them are 30 MB, 270 with their levels
#endif
}

}  // namespace
}  // namespace hearth::data
