// SPDX-License-Identifier: Apache-2.0
// `hearth verify` of other programs' weights: what it finds in files that transformers, torch and Meta's format made
// and that were then spoiled.
#include "foreign.h"

#include <algorithm>

#include "hub/manifest.h"
#include "support/environment.h"

namespace hearth::convert {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string& whole_models() {
  static const test::ScratchFolder scratch;
  static const std::string at = (foreign("make " + scratch.path().string() + "/f L=2"), scratch.path().string() + "/f");
  return at;
}

class Spoiled {
 public:
  explicit Spoiled(const std::string& kind) {
    std::filesystem::copy(whole_models() + "/" + kind, folder(), std::filesystem::copy_options::recursive);
  }
  Path folder() const { return scratch_ / "model"; }
  std::string first(std::string_view ending) const {
    for (const std::string& name : list_folder(folder()))
      if (name.ends_with(ending)) return name;
    ADD_FAILURE() << "no file ends in " << ending;
    return {};
  }
  // Runs a script with the weights' file as `path`.
  void python(const std::string& file, const std::string& script) const {
    write_text(scratch_ / "script.py",
               "import json, os, sys, zipfile\nimport torch\n"
               "from safetensors.torch import load_file, save_file\npath = sys.argv[1]\n" +
                   script);
    const test::CommandResult result =
        test::run_python(fmt::format("{} {}", (scratch_ / "script.py").string(), (folder() / file).string()));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  std::string verified(int exit_code = 3) const {
    const test::CommandResult result = test::run_hearth("verify " + folder().string());
    EXPECT_EQ(result.exit_code, exit_code) << result.output;
    return result.output;
  }

 private:
  test::ScratchFolder scratch_;
};

TEST(VerifyForeign, SaysWhatItCheckedAndWhatItCouldNot) {
  HEARTH_NEEDS_ORACLE();
  EXPECT_THAT(
      Spoiled("hf").verified(0),
      AllOf(HasSubstr("good: 21 tensors in"), HasSubstr("(kind: hf)"),
            HasSubstr("checked: headers, sizes, the index, config.json and the shapes, every element is finite"),
            HasSubstr("not checked: the values of safetensors: the format has no checksums")));
  EXPECT_THAT(Spoiled("meta-2").verified(0),
              AllOf(HasSubstr("tensors in 2 files"), HasSubstr("params.json, the files' count and the shapes"),
                    HasSubstr("the zip files' CRC-32s"), Not(HasSubstr("not checked"))));
}

TEST(VerifyForeign, NamesEveryProblemOfOneFolder) {
  HEARTH_NEEDS_ORACLE();
  const Spoiled model("hf");
  const std::string file = model.first(".safetensors");
  model.python(file, R"(
weights = load_file(path)
weights[next(iter(weights))].view(-1)[7] = float('nan')
save_file(weights, path)
)");
  const std::vector<std::string> names = list_folder(model.folder());
  const auto other = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return name.ends_with(".safetensors") && name != file;
  });
  ASSERT_NE(other, names.end());
  model.python(*other, R"(
weights = load_file(path)
weights[next(iter(weights))].view(-1)[0] = float('-inf')
save_file(weights, path)
)");
  edit(model.folder() / "config.json", "{", "{\"soft_cap\": 30,");
  EXPECT_THAT(model.verified(), AllOf(HasSubstr("3 problems"), HasSubstr("field \"soft_cap\" is not known"),
                                      HasSubstr("has an element that is NaN or infinite")));
}

TEST(VerifyForeign, FindsFilesThatAreMissingOrCut) {
  HEARTH_NEEDS_ORACLE();
  const Spoiled missing("hf");
  const std::string name = missing.first(".safetensors");
  remove_file(missing.folder() / name);
  EXPECT_THAT(missing.verified(), AllOf(HasSubstr(name + " is missing"), HasSubstr(": 1 problem")));
  const Spoiled cut("hf");
  std::filesystem::resize_file(cut.folder() / name, std::filesystem::file_size(cut.folder() / name) - 4);
  EXPECT_THAT(cut.verified(), HasSubstr(name + ": not a safetensors file that can be read"));
  const Spoiled longer("hf");
  write_text(longer.folder() / name, read_file(longer.folder() / name) + "more");
  EXPECT_THAT(longer.verified(), HasSubstr("its last 4 bytes are no tensor's"));
  const Spoiled nothing("hf");
  remove_file(nothing.folder() / "config.json");
  EXPECT_THAT(nothing.verified(), HasSubstr("config.json is missing"));
  const Spoiled empty("hf");
  for (const std::string& file : list_folder(empty.folder()))
    if (file != "config.json") remove_file(empty.folder() / file);
  EXPECT_THAT(empty.verified(), HasSubstr("has no weights"));
  const Spoiled half("meta-2");
  remove_file(half.folder() / "consolidated.01.pth");
  EXPECT_THAT(half.verified(), HasSubstr("consolidated.01.pth is missing"));
  const Spoiled cut_zip("meta-2");
  std::filesystem::resize_file(cut_zip.folder() / "consolidated.01.pth", 5000);
  EXPECT_THAT(cut_zip.verified(), HasSubstr("consolidated.01.pth: not a torch.save file"));
}

TEST(VerifyForeign, FindsAnIndexThatLies) {
  HEARTH_NEEDS_ORACLE();
  const std::string index = "model.safetensors.index.json";
  const Spoiled renamed("hf");
  edit(renamed.folder() / index, "\"lm_head.weight\"", "\"lm_tail.weight\"");
  EXPECT_THAT(renamed.verified(),
              AllOf(HasSubstr("is wrong about lm_head.weight"), HasSubstr("is wrong about lm_tail.weight")));
  const Spoiled climbing("hf");
  const std::string name = climbing.first(".safetensors");
  edit(climbing.folder() / index, name, "../" + name);
  EXPECT_THAT(climbing.verified(), HasSubstr("which is not the name of a file in the same folder"));
}

TEST(VerifyForeign, FindsShapesThatAreNotTheModels) {
  HEARTH_NEEDS_ORACLE();
  const Spoiled wide("hf");
  edit(wide.folder() / "config.json", "\"intermediate_size\": 112", "\"intermediate_size\": 113");
  EXPECT_THAT(wide.verified(), AllOf(HasSubstr("6 problems"),
                                     HasSubstr("layers.0.mlp.gate_proj.weight: float32 [112, 96], expected [113, 96]"),
                                     HasSubstr("layers.1.mlp.down_proj.weight")));
  const Spoiled deep("meta-2");
  edit(deep.folder() / "params.json", "\"n_layers\": 2", "\"n_layers\": 3");
  EXPECT_THAT(deep.verified(), HasSubstr("layers.2.attention.wq.weight: missing"));
  const Spoiled tied("hf");
  edit(tied.folder() / "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  EXPECT_THAT(tied.verified(), HasSubstr("lm_head.weight differs from the embedding"));
}

TEST(VerifyForeign, FindsDamageInsideZipFilesAndRunsNothing) {
  HEARTH_NEEDS_ORACLE();
  const Spoiled flipped("meta-1");
  flipped.python("consolidated.00.pth", R"(
at = max(zipfile.ZipFile(path).infolist(), key=lambda member: member.file_size).header_offset
with open(path, 'r+b') as file:
    file.seek(at + 4096)
    byte = file.read(1)
    file.seek(at + 4096)
    file.write(bytes([byte[0] ^ 1]))
)");
  EXPECT_THAT(flipped.verified(), AllOf(HasSubstr("is damaged: CRC-32"), HasSubstr(": 1 problem")));
  const Spoiled evil("meta-1");
  const std::string ran = (evil.folder() / "ran").string();
  evil.python("consolidated.00.pth", fmt::format(R"(
class Runs:
    def __reduce__(self):
        return (os.system, ('touch {}',))
torch.save(torch.load(path) | {{'evil': Runs()}}, path)
)",
                                                 ran));
  EXPECT_THAT(evil.verified(), HasSubstr("evil is not a tensor but a call of posix.system, which does not run here"));
  EXPECT_FALSE(path_exists(ran));
  const Spoiled endless("meta-1");
  endless.python("consolidated.00.pth", R"(
torch.save(torch.load(path) | {'endless': torch.zeros(1).expand(10**6, 10**6)}, path)
)");
  EXPECT_THAT(endless.verified(), HasSubstr("more than the file has bytes"));
}

// hearth fetch notes the Hub's hashes: they find what is still a model.
TEST(VerifyForeign, FindsChangedBytesOfAFolderThatWasFetched) {
  HEARTH_NEEDS_ORACLE();
  const Spoiled model("hf");
  hub::FetchManifest manifest{"hf:org/model", std::string(40, '0'), "mit", {}, {}, {}, true};
  std::atomic<int64_t> done = 0;
  for (const std::string& name : list_folder(model.folder())) {
    const Path path = model.folder() / name;
    manifest.files.push_back({name, static_cast<int64_t>(std::filesystem::file_size(path)),
                              hub::digest_of_file(path, hub::DigestKind::kSha256, done)});
  }
  hub::write_manifest(model.folder(), manifest);
  EXPECT_THAT(model.verified(0), AllOf(HasSubstr("the Hub's hash of every file"), Not(HasSubstr("not checked"))));
  const std::string name = model.first(".safetensors");
  std::string bytes = read_file(model.folder() / name);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // the sign or the exponent's last bits: finite
  write_text(model.folder() / name, bytes);
  EXPECT_THAT(model.verified(), AllOf(HasSubstr(name + " is not the file of hf:org/model"), HasSubstr(": 1 problem")));
}

TEST(VerifyForeign, OfRanksFilesChecksAllButShapes) {
  HEARTH_NEEDS_ORACLE();
  for (const std::string by_layer : {"0", "1"}) {
    const test::ScratchFolder scratch;
    const std::string at = scratch.path().string() + "/f";
    std::filesystem::copy(whole_models(), at, std::filesystem::copy_options::recursive);
    foreign("neox " + at + " split 2 " + by_layer);
    std::string folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(at))
      if (entry.path().filename().string().ends_with("model_states.pt")) folder = entry.path().parent_path().string();
    ASSERT_FALSE(folder.empty());
    const test::CommandResult good = test::run_hearth("verify " + folder);
    EXPECT_EQ(good.exit_code, 0) << good.output;
    EXPECT_THAT(good.output, AllOf(HasSubstr("(kind: neox)"), HasSubstr("not checked: shapes"),
                                   HasSubstr("the zip files' CRC-32s")));
    for (const std::string& name : list_folder(folder)) {
      if (!name.ends_with("model_states.pt")) continue;
      std::filesystem::resize_file(Path(folder) / name, std::filesystem::file_size(Path(folder) / name) / 2);
      break;
    }
    EXPECT_EQ(test::run_hearth("verify " + folder).exit_code, 3);
  }
}

}  // namespace
}  // namespace hearth::convert
