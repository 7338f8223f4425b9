// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/verify.h"

#include "base/log.h"
#include "commands/commands.h"
#include "commands/progress_line.h"
#include "convert/verify.h"
#include "hub/manifest.h"
#include "hub/name.h"

namespace hearth::commands {
namespace {

void refuse_damage(const Path& folder, const std::vector<std::string>& problems, const char* fix) {
  if (problems.empty()) return;
  for (const std::string& problem : problems) log_error("damaged: {}", problem);
  throw damaged(fmt::format("{} is damaged: {}", folder.string(), counted(std::ssize(problems), "problem")), {}, fix);
}

void verify_dcp(const Path& folder) {
  const checkpoint::Verification found = checkpoint::verify_checkpoint(folder);
  refuse_damage(folder, found.problems,
                "use another checkpoint of the run; `hearth train` takes the newest good one by itself");
  const std::string contents = fmt::format("{} in {}, {}", counted(found.tensors, "tensor"),
                                           counted(found.items, "item"), format_bytes(found.bytes));
  if (found.has_manifest) {
    fmt::print("{}: good. Every checksum is right: {}, .metadata and hearth.json\n", folder.string(), contents);
  } else {
    fmt::print(
        "{}: structure good: {}. There is no hearth.json (PyTorch wrote it), so there are no checksums of ours to "
        "check; the zip files' own CRC-32s are right\n",
        folder.string(), contents);
  }
}

// What `hearth fetch` noted about the folder: the Hub's hash of each file.
void check_manifest(const Path& folder, convert::WeightsCheck& found) {
  const std::optional<hub::FetchManifest> manifest = hub::read_manifest(folder);
  if (!manifest) return;
  std::atomic<int64_t> done_bytes = 0;
  const hub::Differences differences = hub::compare_files(folder, manifest->files, done_bytes);
  for (const std::string& path : differences.missing)
    found.problems.push_back(fmt::format("{} is missing: {} has it", (folder / path).string(), manifest->name));
  for (const std::string& path : differences.wrong)
    found.problems.push_back(fmt::format("{} is not the file of {}", (folder / path).string(), manifest->name));
  found.checked.emplace_back("the Hub's hash of every file that was fetched");
  found.unchecked.clear();
}

void verify_foreign(const convert::FoundWeights& weights) {
  convert::ConvertProgress progress;
  const convert::WeightsCheck found =
      with_progress([&] { return fmt::format("verifying  {}", format_bytes(progress.done_bytes)); },
                    [&] {
                      convert::WeightsCheck result = convert::verify_weights(weights, progress);
                      check_manifest(weights.folder, result);
                      return result;
                    });
  refuse_damage(weights.folder, found.problems, "download these files again, or take another model");
  fmt::print("{}: good: {} in {}, {} (kind: {})\n", weights.folder.string(), counted(found.tensors, "tensor"),
             counted(found.files, "file"), format_bytes(found.bytes), convert::kind_name(weights.kind));
  fmt::print("checked: {}\n", join(found.checked));
  for (const std::string& what : found.unchecked) fmt::print("not checked: {}\n", what);
}

}  // namespace

int verify(CommandLine& line) {
  Path folder;
  std::string from;
  std::vector<std::string> kinds;
  for (const convert::Kind kind : convert::kKinds) kinds.emplace_back(convert::kind_name(kind));
  line.positional("CHECKPOINT", &folder,
                  "folder of one step, RUN/checkpoints/step-..., or of another program's weights");
  line.option("--from KIND", &from, one_of(kinds),
              "kind of weights, where a folder has two; by default it is found from the files");
  if (!line.parse()) return 0;
  folder = hub::find_fetched(folder.string());

  const bool is_dcp =
      path_exists(folder / checkpoint::kManifestFile) || path_exists(folder / checkpoint::kMetadataFile);
  const std::optional<convert::Kind> wanted = convert::find_kind_name(from);
  const bool wants_dcp = !wanted || *wanted == convert::Kind::kNative || *wanted == convert::Kind::kDcp ||
                         *wanted == convert::Kind::kTorchtitan;
  if (is_dcp && wants_dcp) {
    verify_dcp(folder);
    return 0;
  }
  const convert::FoundWeights weights = convert::find_weights(folder, wanted);
  if (weights.kind == convert::Kind::kNative || weights.kind == convert::Kind::kDcp)
    verify_dcp(weights.folder);
  else
    verify_foreign(weights);
  return 0;
}

}  // namespace hearth::commands
