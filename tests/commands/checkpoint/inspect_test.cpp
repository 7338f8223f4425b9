#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/example.h"
#include "mesh/flight.h"
#include "support/hearth_command.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;

using test::run_hearth;

TEST(InspectCommand, ShowsStepParametersProvenanceTensorsAndConfiguration) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 2);
  const test::CommandResult result = run_hearth("inspect " + folder.string());
  EXPECT_EQ(result.exit_code, 0);
  // 13*7 + 6*5 + 4*3 + 11 + 3*4*5 elements of weights; the optimizer's do not count.
  for (const char* expected :
       {"100, 100000 tokens seen", "204 (204) in 5 weights", "LibTorch 2.11.0, 2 ranks", "step-00000001",
        "layers.10.attention.wq.weight", "float64", "[4, 3]", "validation_loss", "steps = 100 # \"quoted\""})
    EXPECT_THAT(result.output, HasSubstr(expected)) << expected << "\n" << result.output;
}

TEST(InspectCommand, AsJsonIsOneObjectWithTheSameNumbers) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 2);
  const test::CommandResult result = run_hearth("inspect --json " + folder.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json j = nlohmann::json::parse(result.output);
  EXPECT_EQ(j.at("step"), 100);
  EXPECT_EQ(j.at("parameters"), 204);
  EXPECT_EQ(j.at("metrics").at("loss"), 0.1 + 0.2);
  EXPECT_EQ(j.at("data").at("seed"), 18446744073709551615u);
  EXPECT_EQ(j.at("config"), example_manifest(100, 2).config_toml);
  ASSERT_EQ(j.at("tensors").size(), 7u);
  EXPECT_EQ(j.at("tensors")[0].at("name"), "cube");
  EXPECT_EQ(j.at("tensors")[0].at("shape"), (std::vector<int64_t>{3, 4, 5}));
}

TEST(InspectCommand, OfCallsListsThemAndDrawsThem) {
  const test::ScratchFolder scratch;
  {
    mesh::FlightWriter writer(mesh::flight_file(scratch, 0), 0, 1);
    writer.end(writer.begin("all_gather", writer.add_group({0, 1, 1}), 1, 64, mesh::kAllPeers));
    writer.set_ended();
  }
  const std::string picture = (scratch / "calls.svg").string(), folder = scratch.path().string();
  const test::CommandResult result = run_hearth("inspect " + folder + " --last 1 --picture " + picture);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("all_gather 1 of ranks 0: 64 B"));
  EXPECT_THAT(result.output, HasSubstr("wrote " + picture));
  EXPECT_THAT(read_file(picture), HasSubstr("<title>all_gather 1 of ranks 0: 64 B: "));
  // They are for calls only.
  const Path checkpoint = save_example(scratch, example_tensors(), 100, 1);
  for (const auto& [option, value] : {std::pair("--last", std::string("3")), {"--picture", picture}}) {
    const test::CommandResult refused = run_hearth(fmt::format("inspect {} {} {}", checkpoint.string(), option, value));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.output, HasSubstr(fmt::format("error: {} is for RUN/flight", option)));
  }
}

TEST(InspectCommand, OfAPyTorchDirectorySaysSo) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  remove_file(folder / kManifestFile);
  const test::CommandResult result = run_hearth("inspect " + folder.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("PyTorch (no hearth.json")) << result.output;
}

TEST(InspectCommand, OfADamagedManifestExitsWith3AndNamesIt) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 100, 1);
  overwrite(folder / kManifestFile, 60, "x");
  const test::CommandResult result = run_hearth("inspect " + folder.string());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("hearth.json is damaged")) << result.output;
}

}  // namespace
}  // namespace hearth::checkpoint
