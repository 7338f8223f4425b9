// SPDX-License-Identifier: Apache-2.0
#include "hub_server.h"

#include "base/random.h"

namespace hearth::hub {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::CommandResult;

std::string random_bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random_u64(random_key(5, "hub"), i));
  return bytes;
}

// A model with an LFS file of 3 MB, a small one, and a file in a folder.
void put_model(const HubServer& server, const std::string& weights) {
  server.put_card("models/o/m", R"({"license":"apache-2.0"})");
  server.put("models/o/m", "model.safetensors", weights);
  server.put("models/o/m", "config.json", "{}");
  server.put("models/o/m", "original/notes.txt", "notes");
}

void flip_byte(const Path& path) {
  std::string content = read_file(path);
  content[content.size() / 2] ^= 1;
  test::write_text(path, content);
}

TEST(Fetch, PrintsLicenceAndSizeThenDownloadsAndChecks) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string weights = random_bytes(3000000);
  put_model(server, weights);
  const CommandResult refused = server.hearth("fetch hf:o/m");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("licence  apache-2.0"));
  EXPECT_THAT(refused.output, HasSubstr("2.86 MiB in 3 files, 2.86 MiB to download"));
  EXPECT_THAT(refused.output, HasSubstr("fix: give --yes"));
  EXPECT_FALSE(path_exists(server.hub() / "models/o/m"));

  const CommandResult done = server.hearth("fetch hf:o/m --yes");
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("3 files with the Hub's hashes"));
  EXPECT_EQ(read_file(server.hub() / "models/o/m/model.safetensors"), weights);
  EXPECT_EQ(read_file(server.hub() / "models/o/m/original/notes.txt"), "notes");
  const CommandResult again = server.hearth("fetch hf:o/m");  // nothing is left: no question
  EXPECT_EQ(again.exit_code, 0) << again.output;
}

TEST(Fetch, TakesPartsRevisionsAndFoldersOfTheUser) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  put_model(server, random_bytes(1000));
  const std::string out = (server / "mine").string();
  const CommandResult part =
      server.hearth("fetch hf:o/m@main --yes --include '*.json' --include 'original/*' --exclude '*.txt' --out " + out);
  EXPECT_EQ(part.exit_code, 0) << part.output;
  EXPECT_TRUE(path_exists(server / "mine/config.json"));
  EXPECT_FALSE(path_exists(server / "mine/original") || path_exists(server / "mine/model.safetensors"));

  const CommandResult other = server.hearth("fetch hf:o/other --yes --out " + out);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.output, HasSubstr("mine has the files of hf:o/m@main"));
  const CommandResult none = server.hearth("fetch hf:o/m --yes --include '*.gguf'");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("no file of hf:o/m is selected"));
  const CommandResult full = server.hearth("fetch hf:o/m --yes --out " + server.store().string());
  EXPECT_EQ(full.exit_code, 2);
  EXPECT_THAT(full.output, HasSubstr("is not empty"));
  const CommandResult revision = server.hearth("fetch hf:o/m@v9 --yes");
  EXPECT_EQ(revision.exit_code, 2);
  EXPECT_THAT(revision.output, HasSubstr("Revision 'v9' not found on 'o/m'"));
  const CommandResult unknown = server.hearth("fetch smollm3");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("hearth fetch --list prints the list"));
}

TEST(Fetch, SurvivesUnavailableServersAndCutConnections) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string weights = random_bytes(3000000);
  put_model(server, weights);
  server.set_faults(
      "GET /api/models/o/m$ 503 1\n"
      "GET /resolve/.*safetensors cut 2\n"
      "GET /resolve/.*config.json 503 1\n");
  const CommandResult result = server.hearth("fetch hf:o/m --yes");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("503 Service Unavailable"));
  EXPECT_THAT(result.output, HasSubstr("trying again in 1 s"));
  EXPECT_EQ(read_file(server.hub() / "models/o/m/model.safetensors"), weights);
}

TEST(Fetch, FindsAByteThatChangedOnItsWayAndRepairsItNextTime) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string weights = random_bytes(300000);
  put_model(server, weights);
  server.set_faults("GET /resolve/.*(safetensors|notes.txt) flip 2\n");
  const CommandResult result = server.hearth("fetch hf:o/m --yes");
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_THAT(result.output, HasSubstr("2 files of hf:o/m differ from the Hub's hashes: model.safetensors, "
                                       "original/notes.txt"));
  const CommandResult unfinished = server.hearth("data build --out " + (server / "x").string() + " hf:o/m");
  EXPECT_EQ(unfinished.exit_code, 2);
  EXPECT_THAT(unfinished.output, HasSubstr("has only a part of its files"));
  const CommandResult again = server.hearth("fetch hf:o/m --yes");
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(read_file(server.hub() / "models/o/m/model.safetensors"), weights);
}

TEST(Fetch, OfflineSaysWhatIsMissingOrWrong) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  put_model(server, random_bytes(1000));
  const CommandResult never = server.hearth("fetch hf:o/m --offline");
  EXPECT_EQ(never.exit_code, 2);
  EXPECT_THAT(never.output, HasSubstr("hf:o/m was never fetched"));
  EXPECT_EQ(server.hearth("fetch hf:o/m --yes").exit_code, 0);
  const std::string requests = server.log();
  const CommandResult good = server.hearth("fetch hf:o/m --offline");
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_THAT(good.output, HasSubstr("3 files of hf:o/m, commit "));
  const Path folder = server.hub() / "models/o/m";
  flip_byte(folder / "model.safetensors");
  const CommandResult wrong = server.hearth("fetch hf:o/m --offline");
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.output, HasSubstr("1 file of hf:o/m differ from the Hub's hashes: model.safetensors"));
  remove_file(folder / "config.json");
  const CommandResult missing = server.hearth("fetch hf:o/m --offline");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output, HasSubstr("1 of 3 files are missing: config.json"));
  EXPECT_EQ(server.log(), requests) << "--offline asked the server";
  test::write_text(folder / ".hearth-fetch.json", "{");
  EXPECT_EQ(server.hearth("fetch hf:o/m --offline").exit_code, 3);
}

TEST(Fetch, TakesNewCommitsAndRemovesFilesThatAreGone) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  put_model(server, random_bytes(1000));
  EXPECT_EQ(server.hearth("fetch hf:o/m --yes").exit_code, 0);
  server.put("models/o/m", "config.json", "{\"new\": 1}");
  remove_tree(server.repository("models/o/m") / "original");
  const CommandResult result = server.hearth("fetch hf:o/m --yes");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("removed  1 file of an earlier commit"));
  EXPECT_EQ(read_file(server.hub() / "models/o/m/config.json"), "{\"new\": 1}");
  EXPECT_FALSE(path_exists(server.hub() / "models/o/m/original/notes.txt"));
}

TEST(Fetch, NamesWhatTheOwnerWantsAndWhatIsNotThere) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  server.put_card("datasets/o/d", R"({"license":["odc-by","mit"],"gated":true})");
  server.put("datasets/o/d", "a.jsonl", "{\"text\": \"one two three\"}\n");
  server.put("datasets/o/d", "README.md", "A card is no data.");
  server.put("datasets/o/d", ".gitattributes", "*.bin lfs");
  const CommandResult refused = server.hearth("fetch hf:datasets/o/d --yes");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("the Hub refuses access to hf:datasets/o/d"));
  EXPECT_THAT(refused.output, HasSubstr("set HF_TOKEN"));
  const CommandResult wrong = server.hearth("fetch hf:datasets/o/d --yes", "HF_TOKEN=hf_wrong");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("check that HF_TOKEN is valid"));
  const CommandResult good = server.hearth("fetch hf:datasets/o/d --yes", "HF_TOKEN=hf_test");
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_THAT(good.output, HasSubstr("licence  odc-by, mit"));
  EXPECT_THAT(good.output, HasSubstr("its owner asks to accept conditions"));
  const CommandResult missing = server.hearth("fetch hf:o/none --yes");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output, HasSubstr("hf:o/none is not on the Hub"));

  const std::string out = (server / "dataset").string();
  const CommandResult built = server.hearth("data build --tokenizer bytes --out " + out + " hf:datasets/o/d");
  EXPECT_EQ(built.exit_code, 0) << built.output;
  const CommandResult inspected = server.hearth("data inspect " + out);
  EXPECT_THAT(inspected.output, HasSubstr("a.jsonl")) << built.output << inspected.output;
  EXPECT_THAT(inspected.output, HasSubstr("1 source\n")) << "a card or a manifest became data";
}

TEST(Fetch, OfAModelGivesItsTokenizerByName) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  EXPECT_THAT(server.hearth("tokenizer info --tokenizer hf:o/t").output, HasSubstr("fix: hearth fetch hf:o/t"));
  std::string vocabulary = R"("a": 256, "b": 257, "ab": 258)";
  for (int byte = 0; byte < 256; ++byte) vocabulary += fmt::format(R"(, "<0x{:02X}>": {})", byte, byte);
  server.put("models/o/t", "tokenizer.json",
             R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
                 "post_processor": null, "decoder": null,
                 "model": {"type": "BPE", "byte_fallback": true, "merges": ["a b"], "vocab": {)" +
                 vocabulary + "}}}");
  EXPECT_EQ(server.hearth("fetch hf:o/t --yes").exit_code, 0);
  test::write_text(server / "text", "aab");
  const CommandResult ids =
      server.hearth("tokenizer encode --eos none --tokenizer hf:o/t " + (server / "text").string());
  EXPECT_THAT(ids.output, HasSubstr("256 258\n"));
}

TEST(Fetch, RefusesAListingWithAPathThatClimbsOut) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  put_model(server, "weights");
  test::write_text(server.repository("models/o/m.listing.json"), R"({"config.json": {"path": "../../evil.json"}})");
  const CommandResult climbs = server.hearth("fetch hf:o/m --yes");
  EXPECT_EQ(climbs.exit_code, 3);
  EXPECT_THAT(climbs.output, HasSubstr("names the file \"../../evil.json\""));
  test::write_text(server.repository("models/o/m.listing.json"), R"({"config.json": {"oid": "1234"}})");
  const CommandResult odd = server.hearth("fetch hf:o/m --yes");
  EXPECT_EQ(odd.exit_code, 3);
  EXPECT_THAT(odd.output, HasSubstr("the Hub's answer about hf:o/m cannot be read"));
  EXPECT_FALSE(path_exists(server.hub() / "models/o/m"));
}

TEST(Fetch, EndsItsClientWhenItIsInterrupted) {
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  put_model(server, "weights");
  server.set_faults("GET /api/models/o/m hang 9\n");
  // Interrupts the program when its request has come to the server, which does not answer.
  test::write_text(server / "interrupt.py", R"(
import signal, subprocess, sys, time
program = subprocess.Popen(sys.argv[2:])
while program.poll() is None and "/api/models/o/m" not in open(sys.argv[1]).read(): time.sleep(0.05)
program.send_signal(signal.SIGINT)
sys.exit(program.wait())
)");
  const Path log = server.store() / "log";
  const std::string starter = fmt::format("python3 {} {}", (server / "interrupt.py").string(), log.string());
  test::write_text(log, "");
  const CommandResult result = server.hearth("fetch hf:o/m --yes", starter);
  EXPECT_EQ(result.exit_code, 75) << result.output;
  EXPECT_THAT(result.output, HasSubstr("interrupted by SIGINT"));
}

// Without the real client: programs that stand in for it.
TEST(Client, NeverPutsATokenIntoItsWordsOrOurErrors) {
  const HubServer server;
  const Path script = server / "client.sh";
  test::write_text(script, "#!/bin/sh\necho \"Client error '401 x' for $HF_TOKEN, words: $*\" >&2\nexit 1\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const CommandResult result = server.hearth("fetch hf:o/m --yes", "HF_TOKEN=hf_secret1 HEARTH_HF=" + script.string());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("for HF_TOKEN, words: models info o/m --format json")) << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("hf_secret1")));
}

TEST(Client, ThatCannotBeInstalledSaysWhatToDo) {
  const HubServer server;
  // A python3 whose venv works and whose pip does not.
  const Path bin = server / "bin", deps = server / "deps";
  const std::string python =
      "#!/bin/sh\nif [ \"$2\" = venv ]; then mkdir -p \"$3/bin\"; cp \"$0\" \"$3/bin/python\"; "
      "else echo 'no matching distribution' >&2; exit 1; fi\n";
  test::write_text(bin / "python3", python);
  std::filesystem::permissions(bin / "python3", std::filesystem::perms::owner_all);
  const std::string settings = fmt::format("HEARTH_DEPS={} PATH={}:/bin:/usr/bin", deps.string(), bin.string());
  const CommandResult result = server.hearth("fetch hf:o/m --yes", settings);
  EXPECT_EQ(result.exit_code, 4) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the client of the Hub cannot be installed"));
  EXPECT_THAT(result.output, HasSubstr("no matching distribution"));
  const CommandResult missing = server.hearth("fetch hf:o/m --yes", "HEARTH_HF=/nowhere/hf");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output, HasSubstr("HEARTH_HF=/nowhere/hf is not there"));
}

TEST(InitialLoadPath, OfAHubNameNamesTheFetchCommand) {
  const HubServer server;
  const std::string run = (server / "run.toml").string();
  test::write_text(server / "run.toml", "[checkpoint]\ninitial_load_path = \"hf:o/m\"\n");
  const CommandResult result = server.hearth("config check " + run);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("hf:o/m is not there")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("hearth fetch hf:o/m"));
}

// A training in LibTorch whose steps are too small to change a weight: its checkpoint has the repository's weights.
TEST(InitialLoadPath, OfAHubNameIsWhereATrainingStarts) {
  HEARTH_NEEDS_TRAINER();
  HEARTH_NEEDS_HUB_CLIENT();
  const HubServer server;
  const std::string at = (server / "").string(), model = server.repository("models/o/m").string();
  make_folders(server.repository("models/o"));
  ASSERT_EQ(
      test::run_command(fmt::format("python3 {} {}", test::source_path("tests/hub/tiny_model.py"), model)).exit_code,
      0);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i * i) + (i % 20 == 19 ? "\n" : " ");
  test::write_text(server / "text/all.txt", text);
  const CommandResult built = server.hearth(fmt::format("data build --out {0}data --tokenizer bytes {0}text", at));
  ASSERT_EQ(built.exit_code, 0) << built.output;
  test::write_text(server / "run.toml", R"([job]
dump_folder = "run"
[model]
dim = 16
n_layers = 2
n_heads = 2
n_kv_heads = 2
hidden_dim = 32
vocab_size = 300
rope_pairs = "halves"
rope_theta = 10000.0
[training]
seq_len = 32
local_batch_size = 2
steps = 2
threads = 1
[optimizer]
lr = 1e-30
weight_decay = 0.0
[checkpoint]
initial_load_path = "hf:o/m"
[data]
path = "data"
)");
  const CommandResult early = server.hearth("train " + at + "run.toml");
  EXPECT_EQ(early.exit_code, 2);
  EXPECT_THAT(early.output, HasSubstr("hearth fetch hf:o/m"));
  ASSERT_EQ(server.hearth("fetch hf:o/m --yes").exit_code, 0);
  EXPECT_EQ(server.hearth("inspect hf:o/m").exit_code, 0);
  EXPECT_EQ(server.hearth("verify hf:o/m").exit_code, 0);
  EXPECT_EQ(server.hearth(fmt::format("convert --to native hf:o/m {}native", at)).exit_code, 0);
  const CommandResult trained = server.hearth("train " + at + "run.toml");
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const CommandResult written = server.hearth(fmt::format("convert --to hf {0}run {0}out", at));
  ASSERT_EQ(written.exit_code, 0) << written.output;
  test::write_text(server / "compare.py", R"(
import json, struct, sys
def weights(folder):
    data = open(folder + "/model.safetensors", "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: data[8 + length:][slice(*entry["data_offsets"])] for name, entry in header.items()}
one, other = map(weights, sys.argv[1:])
print(one.keys() == other.keys(), [name for name in one if one[name] != other.get(name)])
)");
  EXPECT_EQ(test::run_command(fmt::format("python3 {0}compare.py {1} {0}out", at, model)).output, "True []\n");
}

}  // namespace
}  // namespace hearth::hub
