// SPDX-License-Identifier: Apache-2.0
// What ranks have of each tensor, compared with the programs' own rules, written as loops over heads and rows.
#include "convert/rank_layout.h"

#include <gmock/gmock.h>

#include <numeric>

#include "config/families.h"
#include "models/stage_program.h"

namespace hearth::convert {
namespace {

constexpr int64_t kQueries = 8, kKeys = 2, kWidth = 4;

config::Model small_model() {
  config::Model model;
  model.dim = 40;
  model.n_layers = 2;
  model.n_heads = kQueries;
  model.n_kv_heads = kKeys;
  model.head_dim = kWidth;
  model.hidden_dim = 48;
  model.vocab_size = 56;
  return model;
}

// Rows in a rank's file: a name, and a row of this tensor of Hearth's.
using Rows = std::vector<std::pair<std::string, int64_t>>;

Rows rows_of(const RankLayout& layout, const RankRow& row, int64_t rank) {
  Rows rows;
  const plan::ModelShape shape = plan::model_shape(small_model(), 0);
  for (const RankRun& run : layout.runs(row, sizes_of(row, shape), rank)) {
    for (int64_t i = run.first; i < run.first + run.count; ++i) rows.emplace_back(row.sources[run.source].name, i);
  }
  return rows;
}

void add_heads(Rows& rows, const std::string& name, const std::vector<int64_t>& heads) {
  for (const int64_t head : heads) {
    for (int64_t i = 0; i < kWidth; ++i) rows.emplace_back("layers.1." + name + ".weight", head * kWidth + i);
  }
}

void add_share(Rows& rows, const std::string& name, int64_t all, int64_t ranks, int64_t rank) {
  for (int64_t i = 0; i < all; ++i) {
    if (i / (all / ranks) == rank) rows.emplace_back("layers.1." + name + ".weight", i);
  }
}

const std::string kWq = "attention.wq", kWk = "attention.wk", kWv = "attention.wv", kWo = "attention.wo";

// torch.chunk(): list number `part` of `parts`.
std::vector<int64_t> chunk(const std::vector<int64_t>& all, int64_t parts, int64_t part) {
  const auto size = std::ssize(all) / parts;
  return {all.begin() + part * size, all.begin() + (part + 1) * size};
}
std::vector<int64_t> first_numbers(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Meta: files are chunks, and chunks of keys are repeated one by one.
TEST(RankLayout, MetaSharesHeadsInTheirOrder) {
  for (const int64_t ranks : {1, 2, 4, 8}) {
    const RankLayout layout(kQueries, kKeys, ranks);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      for (const std::string& name : {kWq, kWk, kWv, kWo}) {
        const bool is_key = name == kWk || name == kWv;
        std::vector<int64_t> heads;
        for (const int64_t head : first_numbers(is_key ? kKeys : kQueries))
          heads.insert(heads.end(), static_cast<size_t>(is_key ? std::max<int64_t>(1, ranks / kKeys) : 1), head);
        Rows expected;
        add_heads(expected, name, chunk(heads, ranks, rank));
        EXPECT_EQ(rows_of(layout, row_of("layers.1." + name + ".weight"), rank), expected) << ranks << name << rank;
      }
      Rows up, down;
      add_share(up, "feed_forward.w3", 48, ranks, rank);
      add_share(down, "feed_forward.w2", 48, ranks, rank);
      EXPECT_EQ(rows_of(layout, row_of("layers.1.feed_forward.w3.weight"), rank), up);
      EXPECT_EQ(rows_of(layout, row_of("layers.1.feed_forward.w2.weight"), rank), down);
    }
  }
}

// NxD: w.repeat(ranks / keys) for keys. Queries are in groups, and the first group of every key comes before the
// second.
TEST(RankLayout, NxdGivesKeysToRanksInTurn) {
  for (const int64_t ranks : {1, 2, 4, 8}) {
    const RankLayout layout(kQueries, kKeys, ranks, KeyOrder::kInTurn);
    const int64_t times = std::max<int64_t>(1, ranks / kKeys), of_key = kQueries / kKeys, of_rank = kQueries / ranks;
    std::vector<int64_t> keys, queries;
    for (int64_t i = 0; i < times; ++i) {
      for (int64_t key = 0; key < kKeys; ++key) {
        keys.push_back(key);
        for (int64_t head = 0; head < of_key; ++head) {
          if (times == 1 || head / of_rank == i) queries.push_back(key * of_key + head);
        }
      }
    }
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Rows fused, output, ffn;
      add_heads(fused, kWq, chunk(queries, ranks, rank));
      add_heads(fused, kWk, chunk(keys, ranks, rank));
      add_heads(fused, kWv, chunk(keys, ranks, rank));
      add_heads(output, kWo, chunk(queries, ranks, rank));
      add_share(ffn, "feed_forward.w1", 48, ranks, rank);
      add_share(ffn, "feed_forward.w3", 48, ranks, rank);
      const auto found = [&](const std::string& name) {
        return rows_of(layout, rank_table("nxd").find("model.layers.1." + name).value(), rank);
      };
      EXPECT_EQ(found("self_attn.qkv_proj.weight_qkv"), fused) << ranks << " " << rank;
      EXPECT_EQ(found("self_attn.qkv_proj.weight"), fused);
      EXPECT_EQ(found("self_attn.o_proj.weight"), output) << ranks << " " << rank;
      EXPECT_EQ(found("mlp.gate_up_proj.weight"), ffn);
    }
  }
}

// GPT-NeoX's reshape: a part of queries, keys and values for each query head of the rank, or one after another.
TEST(RankLayout, NeoxHasSlotsOfAQueryOrAllQueriesFirst) {
  for (const int64_t ranks : {1, 2}) {
    const RankLayout layout(kQueries, kKeys, ranks);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Rows q, k, v, slots, linear1;
      add_heads(q, kWq, chunk(first_numbers(kQueries), ranks, rank));
      add_heads(k, kWk, chunk(first_numbers(kKeys), ranks, rank));
      add_heads(v, kWv, chunk(first_numbers(kKeys), ranks, rank));
      const size_t count = static_cast<size_t>(kQueries / ranks);
      for (size_t slot = 0; slot < count; ++slot) {
        for (const Rows* all : {&q, &k, &v}) {
          const size_t size = all->size() / count;
          for (size_t i = 0; i < size; ++i) slots.push_back((*all)[slot * size + i]);
        }
      }
      Rows split = q;
      split.insert(split.end(), k.begin(), k.end());
      split.insert(split.end(), v.begin(), v.end());
      add_share(linear1, "feed_forward.w3", 48, ranks, rank);
      add_share(linear1, "feed_forward.w1", 48, ranks, rank);
      const auto found = [&](const char* variant, const char* name) {
        const RankTable table = rank_table("neox").with({variant});
        return rows_of(layout, table.find(name).value().of_layer(1), rank);
      };
      EXPECT_EQ(found("slots", "attention.query_key_value.weight"), slots) << ranks << rank;
      EXPECT_EQ(found("split", "attention.query_key_value.weight"), split) << ranks << rank;
      EXPECT_EQ(found("swiglu", "mlp.linear1.weight"), linear1) << ranks << rank;
    }
  }
}

TEST(RankLayout, TorchtitanHasQueriesBeforeTheirKeyAndValue) {
  Rows expected;
  for (int64_t key = 0; key < kKeys; ++key) {
    add_heads(expected, kWq, {4 * key, 4 * key + 1, 4 * key + 2, 4 * key + 3});
    add_heads(expected, kWk, {key});
    add_heads(expected, kWv, {key});
  }
  const RankRow row = rank_table("torchtitan").find("layers.1.attention.qkv_linear.wqkv.weight").value();
  EXPECT_EQ(rows_of(RankLayout(kQueries, kKeys, 1), row, 0), expected);
}

TEST(RankTable, HasEveryWeightOnce) {
  const plan::ModelShape shape = plan::model_shape(small_model(), 0);
  std::vector<std::string> weights;
  for (const plan::Parameter& parameter : plan::parameter_plan(shape).parameters) weights.push_back(parameter.name);
  const auto names = [](const RankTable& table) {
    std::vector<std::string> found;
    const auto add = [&](const RankRow& row) {
      for (const RankRow::Source& source : row.sources) found.push_back(source.name);
    };
    for (const RankRow& row : table.before) add(row);
    for (const int64_t layer : {0, 1}) {
      for (const RankRow& row : table.block) add(row.of_layer(layer));
    }
    for (const RankRow& row : table.behind) add(row);
    return found;
  };
  for (const char* qkv : {"slots", "split"}) {
    for (const char* ffn : {"llama", "swiglu"})
      EXPECT_THAT(names(rank_table("neox").with({qkv, ffn})), testing::UnorderedElementsAreArray(weights));
  }
  for (const char* qkv : {"separate", "module", "fused", "stride"})
    EXPECT_THAT(names(rank_table("nxd").with({qkv})), testing::UnorderedElementsAreArray(weights)) << qkv;
}

// Ranks of other programs share each weight as Hearth's own do. Norms of heads are left out: their scope decides.
TEST(RankCut, IsThatOfTheModelsParameters) {
  for (const config::Family& family : config::families()) {
    config::Model model = small_model();
    config::apply(family, model);
    if (!family.hugging_face.has_head_dim) model.head_dim = 0, model.dim = kQueries * kWidth;
    const plan::ModelShape shape = plan::model_shape(model, 0);
    for (const models::UnitSpec& unit : models::unit_specs(shape)) {
      for (const models::ParameterSpec& spec : unit.parameters) {
        const std::string name = unit.prefix + spec.name;
        if (name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight")) continue;
        const RankCut cut = cut_of(name);
        EXPECT_EQ(cut.dimension.has_value(), spec.cut != models::Cut::kNothing) << family.name << " " << name;
        if (!cut.dimension) continue;
        EXPECT_EQ(*cut.dimension, spec.cut == models::Cut::kRows ? 0U : 1U) << family.name << " " << name;
        // A sink is one number of a head.
        const bool has_heads = name.find(".attention.") != std::string::npos && !name.ends_with("sinks");
        EXPECT_EQ(cut.heads != HeadKind::kNone, has_heads) << name;
        if (cut.heads == HeadKind::kQueries) {
          EXPECT_EQ(spec.shape[*cut.dimension], kQueries * kWidth) << name;
        }
        if (cut.heads == HeadKind::kKeys) {
          EXPECT_EQ(spec.shape[*cut.dimension], kKeys * kWidth) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace hearth::convert
