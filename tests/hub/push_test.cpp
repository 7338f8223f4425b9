// SPDX-License-Identifier: Apache-2.0
#include "hub_server.h"

#include "base/quantity.h"

namespace hearth::hub {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using test::CommandResult;

// HF_TOKEN may write.
CommandResult push(const HubServer& server, const std::string& words) {
  return server.hearth("push " + words, "HF_TOKEN=hf_test");
}

// A random model in Hugging Face's format, and as a checkpoint of Hearth.
std::string make_model(const HubServer& server) {
  const std::string hf = (server / "tiny-hf").string(), native = (server / "tiny").string();
  const CommandResult made = test::run_command("python3 " + test::source_path("tests/hub/tiny_model.py") + " " + hf);
  EXPECT_EQ(made.exit_code, 0) << made.output;
  const CommandResult converted = server.hearth("convert --to native " + hf + " " + native);
  EXPECT_EQ(converted.exit_code, 0) << converted.output;
  return native;
}

TEST(Push, UploadsAModelWithItsCardThatComesBackTheSame) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string native = make_model(server);
  server.set_faults("PUT /lfs/upload 503 1\nPOST /commit/ 503 1\n");
  const CommandResult result = push(
      server, native + " --to me/tiny --private --license mit --base-model o/base --dataset o/d --command 'hearth x'");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("with the hashes of what was sent")) << result.output;
  EXPECT_THAT(read_file(server.repository("models/me/tiny.created.json")), HasSubstr("\"visibility\": \"private\""));
  const std::string card = read_file(server.repository("models/me/tiny/README.md"));
  EXPECT_THAT(card, HasSubstr("license: \"mit\"\nlibrary_name: transformers\npipeline_tag: text-generation\n"
                              "base_model: \"o/base\"\ndatasets:\n- \"o/d\"\n---\n"));
  EXPECT_THAT(card, HasSubstr("| tokens seen | 0 (0) |"));
  EXPECT_THAT(card, HasSubstr("Command of the training: `hearth x`"));
  EXPECT_THAT(card, HasSubstr("[model]\n"));
  EXPECT_THAT(card, Not(HasSubstr(native))) << "a path of this machine";
  EXPECT_FALSE(path_exists(server.hub() / "push/me") && !list_folder(server.hub() / "push/me").empty());

  EXPECT_EQ(server.hearth("fetch hf:me/tiny --yes").exit_code, 0);
  const std::string back = (server / "back").string();
  const CommandResult converted =
      server.hearth("convert --to native " + (server.hub() / "models/me/tiny").string() + " " + back);
  EXPECT_EQ(converted.exit_code, 0) << converted.output;
  EXPECT_EQ(read_file(back + "/__R_0.distcp"), read_file(native + "/__R_0.distcp"));
}

TEST(Push, OfANativeCheckpointCanBeFetchedAndVerified) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string native = make_model(server);
  const CommandResult result = push(server, native + " --to me/native --format native");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(read_file(server.repository("models/me/native/README.md")), HasSubstr("library_name: hearth"));
  EXPECT_EQ(server.hearth("fetch hf:me/native --yes").exit_code, 0);
  const CommandResult verified = server.hearth("verify " + (server.hub() / "models/me/native").string());
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
}

// Moments have twice the bytes of the weights, and the run file names folders.
TEST(Push, LeavesTheOptimizersStateAndPathsOut) {
  HEARTH_NEEDS_TRAINER();
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const Path data = server / "data", run = server / "run";
  test::write_text(server / "run.toml",
                   fmt::format("[job]\ndump_folder = \"{}\"\n[model]\ndim = 32\nn_layers = 1\nn_heads = 2\n"
                               "n_kv_heads = 1\nvocab_size = 258\n[data]\npath = \"{}\"\n[training]\nsteps = 1\n"
                               "seq_len = 8\nglobal_batch_size = 1\nlocal_batch_size = 1\n",
                               run.string(), data.string()));
  test::write_text(server / "text.txt", "A text of more than eight tokens, for one step of a training.");
  for (const std::string& words :
       {fmt::format("data build --out {} --tokenizer bytes {}", data.string(), (server / "text.txt").string()),
        "train " + (server / "run.toml").string()}) {
    const CommandResult made = test::run_hearth(words);
    ASSERT_EQ(made.exit_code, 0) << made.output;
  }
  const CommandResult result = push(server, run.string() + " --to me/weights --format native");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("weights only: 36 tensors of a training's state left behind"));
  EXPECT_THAT(read_file(server.repository("models/me/weights") / "hearth.json"),
              AllOf(HasSubstr("vocab_size = 258"), Not(HasSubstr(run.string())), Not(HasSubstr(data.string())),
                    HasSubstr("\"host\": \"\"")));
  const CommandResult sent = test::run_hearth("inspect " + server.repository("models/me/weights").string());
  EXPECT_THAT(sent.output, AllOf(HasSubstr("in 12 weights"), HasSubstr("other state  0 B"))) << sent.output;
}

// `hearth convert --verify` is compared with transformers in tests/convert; here: that its result reaches the card.
TEST(Push, SaysInTheCardWhatWasProved) {
  HEARTH_NEEDS_TRAINER();
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string native = make_model(server);
  for (const char* format : {"hf", "native"}) {
    const CommandResult result = push(server, native + " --verify --to me/proved-" + format + " --format " + format);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(read_file(server.repository("models/me/proved-" + std::string(format) + "/README.md")),
                HasSubstr(" logits"));
  }
  const CommandResult without = push(server, native + " --to me/unproved");
  EXPECT_EQ(without.exit_code, 0) << without.output;
  EXPECT_THAT(read_file(server.repository("models/me/unproved/README.md")), Not(HasSubstr(" logits")));
}

TEST(Push, FindsAByteThatChangedOnItsWay) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string native = make_model(server);
  server.set_faults("PUT /lfs/upload store-flip 1\n");
  const CommandResult result = push(server, native + " --to me/tiny");
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_THAT(result.output, HasSubstr("hf:me/tiny did not arrive as it was sent: model.safetensors"));
}

// Weights of another program come from a folder of this machine, which does not go to the Hub either.
TEST(Push, OfAnotherProgramsWeightsDoesNotNameTheMachine) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  make_model(server);
  const CommandResult result = push(server, (server / "tiny-hf").string() + " --to me/native --format native");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const std::string manifest = read_file(server.repository("models/me/native") / "hearth.json");
  EXPECT_THAT(manifest, AllOf(HasSubstr("\"parent\": \"tiny-hf\""), Not(HasSubstr((server / "tiny-hf").string()))));
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_THAT(manifest, Not(HasSubstr(fmt::format("\"{}\"", host))));
  const CommandResult shown = test::run_hearth("inspect " + server.repository("models/me/native").string());
  EXPECT_THAT(shown.output, Not(HasSubstr("Z on "))) << shown.output;
}

// It works without a client, a token and a network.
TEST(Push, DryRunPrintsWhatWouldBeSentAndSendsNothing) {
  const HubServer server;
  const std::string native = make_model(server);
  const CommandResult result = server.hearth("push " + native + " --to me/tiny --license mit --private --dry-run",
                                             "HEARTH_HF=/nowhere HF_ENDPOINT=http://127.0.0.1:9");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("would send 4 files, "), HasSubstr("to hf:me/tiny, private:\n"),
                                   HasSubstr("  config.json\n"), HasSubstr("  model.safetensors\n"),
                                   HasSubstr("license: \"mit\"\n"), HasSubstr("nothing was sent\n")));
  EXPECT_FALSE(path_exists(server.repository("models/me/tiny")));
  EXPECT_TRUE(list_folder(server.hub() / "push/me").empty());
  // What it says is what is sent.
  if (!client_problem().empty()) return;
  const CommandResult sent = push(server, native + " --to me/tiny --license mit --private");
  EXPECT_EQ(sent.exit_code, 0) << sent.output;
  int64_t files = 0;
  for (const FileEntry& file : files_under(server.repository("models/me/tiny"))) {
    ++files;
    EXPECT_THAT(result.output, HasSubstr(fmt::format("{:>10}  {}\n", format_bytes(file.bytes), file.path.string())));
  }
  EXPECT_EQ(files, 4);
}

TEST(Push, RefusesWithoutATokenAndKeepsPrivateThingsPrivate) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string native = make_model(server);
  const CommandResult anonymous = server.hearth("push " + native + " --to me/tiny");
  EXPECT_EQ(anonymous.exit_code, 2) << anonymous.output;
  EXPECT_THAT(anonymous.output, HasSubstr("the Hub refuses access to hf:me/tiny"));
  server.put("models/me/public", "README.md", "x");
  const CommandResult open = push(server, native + " --to me/public --private");
  EXPECT_EQ(open.exit_code, 2) << open.output;
  EXPECT_THAT(open.output, HasSubstr("hf:me/public exists and is public"));
  // Files that stay in the repository would hide the new weights, or change them.
  server.put("models/me/adapted", "adapter_config.json", "{}");
  const CommandResult adapted = push(server, native + " --to me/adapted");
  EXPECT_EQ(adapted.exit_code, 2) << adapted.output;
  EXPECT_THAT(adapted.output, AllOf(HasSubstr("hf:me/adapted has adapter_config.json, and the upload would leave it"),
                                    HasSubstr("delete it on the repository's page first")));
  const CommandResult name = push(server, native + " --to tiny");
  EXPECT_EQ(name.exit_code, 2);
  EXPECT_THAT(name.output, HasSubstr("write it as ORG/NAME"));
  EXPECT_EQ(push(server, "/nowhere --to me/tiny").exit_code, 2);
}

}  // namespace
}  // namespace hearth::hub
