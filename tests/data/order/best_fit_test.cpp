// SPDX-License-Identifier: Apache-2.0
#include "data/order/best_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/batch/loader.h"
#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

constexpr int64_t kSeqLen = 48;

// Documents of 1 to 130 tokens, and a line of ids for each.
class BestFitTest : public testing::Test {
 protected:
  void make(int64_t documents) {
    const RandomKey key = random_key(8, "lengths");
    std::string text, lines;
    for (int64_t d = 0; d < documents; ++d) {
      const auto bytes = static_cast<int64_t>(random_u64(key, static_cast<uint64_t>(d)) % (d % 3 == 0 ? 130 : 40));
      std::string document = words(static_cast<uint64_t>(d), bytes);
      std::replace(document.begin(), document.end(), '\n', ' ');
      text += document + "\n";
      for (const char c : document + "\n") lines += fmt::format("{} ", static_cast<int>(c));
      lines += "257\n";  // EOS
    }
    write_text(scratch_ / "text" / "lines.txt", text);
    write_text(scratch_ / "ids", lines);
    BuildRules rules;
    rules.read.document_bytes = 1;
    rules.shard_tokens = 3000;
    build(scratch_ / "out", {scratch_ / "text"}, rules);
    dataset_ = std::make_unique<Dataset>(Dataset::open(scratch_ / "out"));
    ASSERT_EQ(train().documents(), documents);
  }
  const Split& train() const { return dataset_->split("train"); }

  std::shared_ptr<const WindowTable> table(int64_t threads, int64_t group_size = kBestFitGroup) const {
    return std::make_shared<const WindowTable>(best_fit_table(train(), kSeqLen, threads, group_size), train().tokens(),
                                               kSeqLen);
  }
  std::string reference(int64_t group_size) const {
    const auto python = test::run_command(fmt::format("python3 {} {} {} {}",
                                                      test::source_path("tests/data/order/best_fit_reference.py"),
                                                      kSeqLen, group_size, (scratch_ / "ids").string()));
    EXPECT_EQ(python.exit_code, 0);
    return python.output;
  }

  // The windows in the reference's form.
  std::string windows_of(std::shared_ptr<const WindowTable> table) const {
    LoaderOptions o;
    o.seq_len = kSeqLen;
    o.global_batch_size = o.local_batch_size = 1;
    o.order.tables = {table};
    o.prefetch_threads = 0;
    Loader loader(train(), o);
    const Sampler sampler = sampler_of(train(), o);
    std::map<int64_t, std::string> windows;
    for (int64_t g = 0; g < table->windows(); ++g) {
      const Batch batch = loader.next().micro_batches[0];
      std::string line;
      for (const int32_t id : batch.tokens) line += fmt::format("{} ", id);
      line += "|";
      for (const int32_t id : batch.labels) line += fmt::format(" {}", id);
      line += " |";
      for (const int32_t start : batch.document_starts) line += fmt::format(" {}", start);
      windows[sampler.sample(static_cast<uint64_t>(g)).window] = line;
    }
    std::string result;
    for (const auto& [window, line] : windows) result += line + "\n";
    return result;
  }

  test::ScratchFolder scratch_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(BestFitTest, WindowsAreThoseThatTheDocumentDescribes) {
  make(1500);
  const auto packed = table(1);
  const std::string windows = windows_of(packed), expected = reference(kBestFitGroup);
  EXPECT_TRUE(expected == windows) << expected.substr(0, 500) << "\n...\n" << windows.substr(0, 500);
  EXPECT_EQ(packed->padding(), packed->windows() * kSeqLen - train().tokens());
  EXPECT_LT(packed->padding(), packed->windows());  // 2 %: small documents fill the rest of large ones' rows
}

// Every token except a document's first follows another and is a label once. The only label after a document's last
// token is another document's first token.
TEST_F(BestFitTest, EveryTokenIsAnInputOnceAndALabelOnceBehindTheOneBeforeIt) {
  make(700);
  const auto packed = table(1);
  std::vector<int> inputs(static_cast<size_t>(train().tokens())), labels = inputs;
  std::vector<RowPart> parts;
  int64_t cut = 0;
  for (int64_t window = 0; window < packed->windows(); ++window) {
    packed->parts(window, parts);
    for (const RowPart& part : parts) {
      for (int64_t t = 0; t < part.num_inputs; ++t) ++inputs[static_cast<size_t>(part.first_token + t)];
      for (int64_t t = 1; t < part.num_tokens(); ++t) ++labels[static_cast<size_t>(part.first_token + t)];
      const TokenPosition first = train().locate(part.first_token);
      EXPECT_EQ(part.joins, first.offset == 0);
      EXPECT_EQ(train().locate(part.first_token + part.num_tokens() - 1).document, first.document);
      cut += part.joins ? 0 : 1;
    }
  }
  EXPECT_EQ(inputs, std::vector<int>(inputs.size(), 1));
  int64_t cuts = 0;
  for (int64_t d = 0; d < train().documents(); ++d) {
    const int64_t begin = train().document_begin(d), end = train().document_begin(d + 1);
    EXPECT_EQ(labels[static_cast<size_t>(begin)], 0);
    for (int64_t t = begin + 1; t < end; ++t) ASSERT_EQ(labels[static_cast<size_t>(t)], 1);
    cuts += (end - begin - 1) / kSeqLen;
  }
  EXPECT_EQ(cut, cuts);  // only documents longer than a window are cut
}

TEST_F(BestFitTest, GroupsFollowOneAnotherForAnyNumberOfThreads) {
  make(700);
  const auto one = table(1, 300), four = table(4, 300);
  EXPECT_TRUE(windows_of(one) == reference(300));
  for (size_t i = 0; i < one->table().size(); ++i) {
    const auto a = one->table()[i].bytes(), b = four->table()[i].bytes();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
}

}  // namespace
}  // namespace hearth::data
