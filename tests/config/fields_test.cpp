// SPDX-License-Identifier: Apache-2.0
#include "config/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/nearest.h"
#include "config/families.h"
#include "config/load.h"

namespace hearth::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

const void* place_of(const Field& field, RunConfig& config) {
  const FieldPointer pointer = field.pointer(config);
  if (const auto* choice = std::get_if<ChoicePointer>(&pointer)) return choice->member;
  const void* place = nullptr;
  std::visit(
      [&]<class Member>(Member member) {
        if constexpr (std::is_pointer_v<Member>) place = member;
      },
      pointer);
  return place;
}

// How many members an aggregate has: as many as braces take.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT: whatever the member is
};
template <class Struct, class... Members>
constexpr size_t num_members() {
  if constexpr (requires { Struct{Members{}..., Anything{}}; })
    return num_members<Struct, Members..., Anything>();
  else
    return sizeof...(Members);
}

TEST(Fields, EveryKeyHasOneNameOnePlaceAndAHelp) {
  std::set<std::string> names;
  std::set<const void*> places;
  RunConfig config;
  for (const Field& field : fields()) {
    EXPECT_TRUE(names.insert(field.name()).second) << field.name() << " stands twice";
    const void* place = place_of(field, config);
    EXPECT_TRUE(places.insert(place).second) << field.name() << " shares its member with another key";
    EXPECT_FALSE(field.help.empty()) << field.name();
    EXPECT_THAT(field.help, Not(HasSubstr("|"))) << field.name() << " would break the table in docs";
    EXPECT_FALSE(section_help(field.section).empty()) << field.section;
    EXPECT_EQ(find_field(field.name()), &field);
  }
  EXPECT_EQ(find_field("training"), nullptr);
  EXPECT_EQ(find_field("training.step"), nullptr);
}

// A member that is added to the structs and not to the table would be a key that no run file can set.
TEST(Fields, EveryMemberOfTheStructsIsInTheTable) {
  std::map<std::string_view, size_t> rows;
  for (const Field& field : fields()) ++rows[field.section];
  for (const List& list : lists()) ++rows[list.section()];
  EXPECT_EQ(rows, (std::map<std::string_view, size_t>{{"job", num_members<Job>()},
                                                      {"model", num_members<Model>() - 1 + num_members<BlockOptions>()},
                                                      {"objective", num_members<Objective>()},
                                                      {"optimizer", num_members<Optimizer>()},
                                                      {"lr_scheduler", num_members<LrScheduler>()},
                                                      {"training", num_members<Training>()},
                                                      {"parallelism", num_members<Parallelism>()},
                                                      {"checkpoint", num_members<Checkpoint>()},
                                                      {"validation", num_members<Validation>()},
                                                      {"metrics", num_members<Metrics>()},
                                                      {"profiling", num_members<Profiling>()},
                                                      {"comm", num_members<Comm>()},
                                                      {"data", num_members<Data>()},
                                                      {"memory", num_members<Memory>()},
                                                      {"numerics", num_members<Numerics>()}}));
  EXPECT_EQ(num_members<RunConfig>(), rows.size() + 1) << "a section is missing above; base_folder is no section";
}

TEST(Fields, EveryMemberOfAListsTableIsInTheTable) {
  RunConfig config;
  std::map<std::string_view, size_t> rows;
  for (const List& list : lists()) list.resize(config, 2);
  for (const Field& field : list_fields()) {
    ASSERT_NE(find_list(field.section), nullptr) << field.section;
    EXPECT_EQ(find_list_field(field.section, field.key), &field);
    EXPECT_FALSE(field.help.empty());
    EXPECT_THAT(field.help, Not(HasSubstr("|"))) << field.name() << " would break the table in docs";
    ++rows[field.section];
    EXPECT_TRUE(field.limits.allow(field.default_value())) << field.name();
  }
  EXPECT_EQ(rows, (std::map<std::string_view, size_t>{{"optimizer.group", num_members<OptimizerGroup>()},
                                                      {"validation.set", num_members<ValidationSet>()},
                                                      {"data.source", num_members<DataSource>()},
                                                      {"data.segment", num_members<DataSegment>()}}));
}

TEST(Fields, EntriesAreWrittenSectionBySectionWithTheirListsBelow) {
  RunConfig config;
  config.data.source.resize(2);
  std::vector<std::string> names;
  for (const Entry& entry : entries(config)) {
    if (entry.field->section.starts_with("data")) names.push_back(entry.heading() + " " + entry.name());
  }
  names.erase(names.begin() + 1, std::find(names.begin(), names.end(), "[[data.source]] data.source.0.path"));
  EXPECT_EQ(names,
            (std::vector<std::string>{"[data] data.path", "[[data.source]] data.source.0.path", " data.source.0.weight",
                                      " data.source.0.epochs_max", "[[data.source]] data.source.1.path",
                                      " data.source.1.weight", " data.source.1.epochs_max"}));
}

TEST(Fields, EveryDefaultIsAllowed) {
  for (const Field& field : fields()) {
    const Value value = field.default_value();
    if (const auto* number = std::get_if<double>(&value)) {
      EXPECT_TRUE(field.limits.allow(*number)) << field.name();
    }
    if (const auto* whole = std::get_if<int64_t>(&value)) {
      EXPECT_TRUE(field.limits.allow(static_cast<double>(*whole))) << field.name();
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      EXPECT_TRUE(field.limits.allow(std::string_view(*text))) << field.name();
    }
  }
}

TEST(Fields, EveryChoiceIsTakenAndGivenBackByItsName) {
  RunConfig config;
  size_t num_choices = 0;
  for (const Field& field : fields()) {
    if (!std::holds_alternative<ChoicePointer>(field.pointer(config))) continue;
    ++num_choices;
    EXPECT_GE(field.limits.choices.size(), 2u) << field.name();
    const RunConfig before;
    for (const std::string_view choice : field.limits.choices) {
      field.set(config, 0, Value(std::string(choice)));
      EXPECT_EQ(field.value(config), Value(std::string(choice))) << field.name();
    }
    const FieldPointer pointer = field.pointer(config);
    const auto& place = std::get<ChoicePointer>(pointer);
    EXPECT_FALSE(place.assign(place.member, "no choice")) << field.name();
  }
  EXPECT_GT(num_choices, 0u);
  for (const std::string_view name : choice_names(DType{})) EXPECT_EQ(name, dtype_name(*find_choice<DType>(name)));
}

TEST(Fields, EveryConditionNamesAKeyAndValuesThatItMayHave) {
  size_t num_conditions = 0;
  const auto check = [&](const AppliesWhen& applies_when) {
    for (const Condition& condition : applies_when) {
      ++num_conditions;
      EXPECT_EQ(condition.values.empty(), condition.kind == Condition::Kind::kGiven);
      for (const std::string_view key : condition.keys) {
        const Field* field = find_field(key);
        if (field == nullptr) {
          EXPECT_NE(find_list(key), nullptr) << key;
          continue;
        }
        for (const Value& value : condition.values) {
          EXPECT_EQ(value.index(), field->default_value().index()) << key;
          EXPECT_TRUE(field->limits.allow(value)) << key;
        }
      }
    }
  };
  for (const Field& field : fields()) check(field.applies_when);
  for (const List& list : lists()) check(list.applies_when);
  EXPECT_GT(num_conditions, 30u);
  for (const Field& field : list_fields()) EXPECT_TRUE(field.applies_when.empty()) << "nothing checks it";
}

TEST(Fields, BoundsThatAreOpenExcludeTheBoundAndNothingAllowsNaN) {
  const Limits& beta = find_field("optimizer.beta1")->limits;
  EXPECT_TRUE(beta.allow(0.0));
  EXPECT_TRUE(beta.allow(0.999999));
  EXPECT_FALSE(beta.allow(1.0));
  EXPECT_EQ(beta.text(), "at least 0, less than 1");
  const Limits& eps = find_field("optimizer.eps")->limits;
  EXPECT_FALSE(eps.allow(0.0));
  EXPECT_EQ(eps.text(), "more than 0, at most 1");
  const Limits& ratio = find_field("lr_scheduler.decay_ratio")->limits;
  EXPECT_TRUE(ratio.allow(-1.0));
  EXPECT_FALSE(ratio.allow(-0.5));
  EXPECT_EQ(ratio.text(), "at least 0, at most 1, or -1");
  for (const Field& field : fields()) {
    if (field.type() != "number") continue;
    EXPECT_FALSE(field.limits.allow(std::nan(""))) << field.name();
    EXPECT_FALSE(field.limits.allow(INFINITY)) << field.name();
  }
}

TEST(Fields, ValuesAreWrittenAsTomlWritesThem) {
  EXPECT_EQ(to_toml_value(true), "true");
  EXPECT_EQ(to_toml_value(int64_t{-3}), "-3");
  EXPECT_EQ(to_toml_value(10000.0), "10000.0");
  EXPECT_EQ(to_toml_value(1e-8), "1e-08");
  EXPECT_EQ(to_toml_value(0.1), "0.1");
  EXPECT_EQ(to_toml_value(std::string("a \"b\" \\ \n")), "\"a \\\"b\\\" \\\\ \\u000a\"");
}

TEST(Flavors, AreOfTheNamesThatModelNameMayHave) {
  std::set<std::string_view> names = {"afmoe", "arcee",      "dots1",   "exaone4",
                                      "glm4",  "minimax_m2", "mistral", "olmo"};  // without flavors
  for (const Flavor& flavor : flavors()) names.insert(flavor.model_name);
  const std::vector<std::string_view>& choices = find_field("model.name")->limits.choices;
  EXPECT_EQ(names, std::set<std::string_view>(choices.begin(), choices.end()));
  EXPECT_EQ(flavor_names("llama3.2"), "1B, 3B");
}

TEST(Flavors, SetTheKeysOfTheirFamilyToo) {
  const Model model = model_of(*find_flavor("qwen3", "0.6B"));
  EXPECT_TRUE(model.qk_norm);
  EXPECT_FALSE(model.qkv_bias);
  EXPECT_EQ(model.hidden_dim, 3072);
  EXPECT_EQ(model.norm_eps, 1e-6);
  EXPECT_EQ(model_of(*find_flavor("llama3.1", "8B")).rope_scaling_factor, 8);
}

TEST(Families, DifferInWhatTheirModelsCompute) {
  const Model llama;
  EXPECT_EQ(nearest_family(llama).name, "llama");
  // Both compute the same; the name decides.
  Model other = llama;
  other.name = "mistral";
  EXPECT_EQ(nearest_family(other).name, "mistral");
  EXPECT_TRUE(is_block_option("model.norm_placement"));
  EXPECT_FALSE(is_block_option("model.norm_eps"));
  EXPECT_FALSE(is_block_option("training.seed"));
  other = llama;
  other.sliding_window = 4096;
  EXPECT_EQ(nearest_family(other).name, "mistral");
  EXPECT_THAT(differences(find_family("llama"), other), ElementsAre("model.sliding_window = 4096"));
  other.full_attention_interval = 2;
  EXPECT_THAT(differences(find_family("mistral"), other), ElementsAre("model.sliding_window in 2 of 4 layers"));
  other.full_attention_interval = 0;
  other.qkv_bias = true;
  EXPECT_EQ(nearest_family(other).name, "qwen2");
  EXPECT_TRUE(differences(find_family("qwen2"), other).empty());
  other.qk_norm = true;
  EXPECT_THAT(differences(nearest_family(other), other), SizeIs(1));
  other = llama;
  other.norm_type = NormType::kLayerNorm;
  EXPECT_THAT(differences(nearest_family(other), other), ElementsAre("model.norm_type = \"layernorm\""));
  other.norm_type = NormType::kNpLayerNorm;
  other.norm_eps = 1e-6;
  EXPECT_THAT(differences(find_family("olmo"), other), ElementsAre("model.norm_eps = 1e-06"));
  // Granite's numbers are its own; those of no class's are said.
  other = llama;
  other.attention_multiplier = 0.5;
  EXPECT_EQ(nearest_family(other).name, "granite");
  EXPECT_TRUE(differences(find_family("granite"), other).empty());
  EXPECT_THAT(differences(find_family("llama"), other), ElementsAre("model.attention_multiplier = 0.5"));
  other.norm_type = NormType::kRmsNorm1p;
  EXPECT_THAT(differences(nearest_family(other), other), ElementsAre("model.norm_type = \"rmsnorm_1p\""));
  other = llama;
  apply(find_family("arcee"), other);
  EXPECT_EQ(nearest_family(other).name, "arcee");
  // Every key that refuses a resume, and that is no size, is compared or left open by every family.
  for (const Field& field : fields()) {
    if (field.section != "model" || field.at_resume != AtResume::kRefuse) continue;
    RunConfig changed;
    const Value value = field.default_value();
    if (const bool* flag = std::get_if<bool>(&value);
        flag != nullptr && field.key != "enable_weight_tying" && field.key != "rope_truncate") {
      field.set(changed, 0, !*flag);
      EXPECT_FALSE(differences(find_family("llama"), changed.model).empty()) << field.key;
    }
  }
}

// What a run of a family without a flavor computes is no Llama.
TEST(Families, GiveTheirKeysToAModelOfTheirName) {
  const LoadResult run = read_run_text("[model]\nname = \"qwen3\"\n", "run.toml", ".", {});
  EXPECT_TRUE(run.config.model.qk_norm);
  const LoadResult olmo = read_run_text("[model]\nname = \"olmo\"\n", "run.toml", ".", {});
  EXPECT_EQ(olmo.config.model.norm_type, NormType::kNpLayerNorm);
  const LoadResult plain = read_run_text("[model]\nname = \"olmo2\"\nqk_norm = false\n", "run.toml", ".", {});
  EXPECT_EQ(plain.config.model.norm_placement, NormPlacement::kOutputs);
  EXPECT_EQ(plain.config.model.qk_norm_scope, QkNormScope::kHead) << "has no effect without qk_norm";
  Model model;
  apply(find_family("qwen2"), model);
  EXPECT_EQ(model.name, "qwen2");
  const LoadResult other = read_run_text("[model]\nname = \"qwen3\"\nqk_norm = false\n", "run.toml", ".", {});
  EXPECT_FALSE(other.config.model.qk_norm);
}

TEST(Nearest, FindsWhatWasMeantAndNothingWhereNothingIsLikeIt) {
  EXPECT_EQ(edit_distance("steps", "setps"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  const std::vector<std::string> names = {"steps", "tokens", "epochs", "seq_len", "warmup_steps"};
  EXPECT_EQ(nearest("setps", names), "steps");
  EXPECT_EQ(nearest("step", names), "steps");
  EXPECT_EQ(nearest("warmup", names), "warmup_steps");
  EXPECT_EQ(nearest("seqlen", names), "seq_len");
  EXPECT_EQ(nearest("compile", names), "");
  EXPECT_EQ(nearest("x", names), "");
}

}  // namespace
}  // namespace hearth::config
