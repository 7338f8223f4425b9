// SPDX-License-Identifier: Apache-2.0
// A dataset of texts, and options of loaders that hide its tokens.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "data/batch/loader.h"
#include "data/corpus_folder.h"

namespace hearth::data {

struct HidingLoader : testing::Test {
  void SetUp() override {
    write_corpus(scratch / "text", 20);
    build(scratch / "out", {scratch / "text"});
    dataset = std::make_unique<Dataset>(Dataset::open(scratch / "out"));
  }
  // `labels`: how tokens are hidden.
  static LoaderOptions options_with(const LabelRule& labels, int64_t ranks, int64_t rank) {
    LoaderOptions o;
    o.seed = 9;
    o.seq_len = 16;
    o.global_batch_size = 8;
    o.local_batch_size = 2;
    o.rank = rank;
    o.ranks = ranks;
    o.order.masked = true;
    o.labels = labels;
    return o;
  }
  const Split& train() const { return dataset->split("train"); }
  test::ScratchFolder scratch;
  std::unique_ptr<Dataset> dataset;
};

}  // namespace hearth::data
