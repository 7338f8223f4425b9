// SPDX-License-Identifier: Apache-2.0
// `hearth push`: uploads a checkpoint, converted, with a card.
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "checkpoint/load.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/hub/model_card.h"
#include "commands/progress_line.h"
#include "commands/torch_options.h"
#include "config/load.h"
#include "convert/open.h"
#include "hub/name.h"

namespace hearth::commands {
namespace {

convert::Result convert_into(const Path& folder, const Path& checkpoint, const PushOptions& push) {
  convert::Options options{};
  options.in = checkpoint;
  options.out = folder;
  options.to = push.card.is_native ? convert::Kind::kNative : convert::Kind::kHuggingFace;
  options.is_published = true;
  if (push.prove) options.prove = [&](const convert::Written& written) { return push.prove(options, written); };
  convert::ConvertProgress progress;
  const Stopwatch clock;
  return with_progress([&] { return bytes_bar("writing", progress.done_bytes, progress.all_bytes, clock.seconds()); },
                       [&] { return convert::convert(options, progress); });
}

// What the checkpoint's own run file says of its start.
void add_origin(CardInput& card) {
  const config::RunConfig run = config::from_toml_text(card.manifest->config_toml, checkpoint::kManifestFile, ".");
  const std::string& first = run.checkpoint.initial_load_path;
  if (card.base_model.empty() && hub::is_name(first)) card.base_model = hub::parse_name(first).repository;
}

void print_dry_run(const Path& folder, const hub::PushRequest& upload) {
  const std::vector<FileEntry> files = files_under(folder);
  int64_t bytes = 0;
  for (const FileEntry& file : files) bytes += file.bytes;
  fmt::print("would send {}, {}, to hf:{}{}:\n", counted(std::ssize(files), "file"), format_bytes(bytes),
             upload.repository, upload.is_private ? ", private" : "");
  for (const FileEntry& file : files) fmt::print("  {:>10}  {}\n", format_bytes(file.bytes), file.path.string());
  fmt::print("\nREADME.md:\n\n{}\nnothing was sent\n", read_file(folder / "README.md"));
}

}  // namespace

std::optional<PushOptions> push_options(CommandLine& line) {
  PushOptions options;
  CardInput& card = options.card;
  hub::PushRequest& upload = options.upload;
  std::string to, format = "hf";
  line.positional("CHECKPOINT", &options.checkpoint, "folder of one step, or a run's folder: its newest checkpoint");
  line.option("--to ORG/NAME", &to, "the model's repository on the Hugging Face Hub; it is made if it is not there")
      .required();
  line.flag("--private", &upload.is_private, "make a private repository; refused where a public one is there");
  line.option("--format KIND", &format, one_of({"hf", "native"}),
              "hf: config.json and safetensors, for transformers; native: Hearth's own");
  line.option("--license ID", &card.licence, "the weights' licence, as the Hub writes it, such as apache-2.0");
  line.option("--base-model ORG/NAME", &card.base_model,
              "the model whose weights the training started from; default: the run file's hf: name");
  line.option("--dataset ORG/NAME", &card.datasets, "a dataset of the training");
  line.option("--command TEXT", &card.command, "the command of the training, for the card");
  line.option("--message TEXT", &upload.message, "message of the commit");
  line.flag("--verify", &options.verify,
            "before the upload, compute the logits of a few sequences from both sides and compare them; the card says "
            "what was proved; exit code 3, and nothing is sent, if they differ");
  line.flag(
      "--dry-run", &options.dry_run,
      "print the files that would be sent, their sizes and the card; send nothing; needs no token and no network");
  line.append("The weights alone are uploaded, without the optimizer's state. HF_TOKEN is the token, which may write.");
  if (!line.parse()) return std::nullopt;
  upload.repository = hub::parse_repository(to);
  if (!card.base_model.empty()) card.base_model = hub::parse_repository(card.base_model);
  for (std::string& dataset : card.datasets) dataset = hub::parse_repository(dataset);
  card.repository = upload.repository;
  card.is_native = format == "native";
  return options;
}

int run_push(PushOptions options) {
  CardInput& card = options.card;
  hub::PushRequest& upload = options.upload;
  const convert::FoundWeights found = convert::find_weights(options.checkpoint);
  std::optional<checkpoint::Manifest> manifest;
  if (found.kind == convert::Kind::kNative) {
    manifest = checkpoint::Reader::open(found.folder).manifest();
    card.manifest = &*manifest;
    add_origin(card);
  }
  std::optional<hub::Client> client;
  if (!options.dry_run) client = hub::Client::find_or_install();
  const Path work = hub::hub_folder() / "push" / fmt::format("{}.{}", upload.repository, ::getpid());
  remove_tree(work);
  std::error_code ignored;
  const std::shared_ptr<void> at_the_end(nullptr, [&](void*) { std::filesystem::remove_all(work, ignored); });
  make_folders(work.parent_path());
  const convert::Result result = convert_into(work, found.folder, options);
  for (const std::string& note : result.notes) fmt::print("note: {}\n", note);
  card.parameters = result.parameters;
  card.proof = result.proof;
  write_file_atomic(work / "README.md", format_card(card));
  if (options.dry_run) {
    print_dry_run(work, upload);
    return 0;
  }

  upload.folder = work;
  if (!card.is_native) upload.hiding = convert::files_before(work);
  if (upload.message.empty()) upload.message = fmt::format("Upload of {}", found.folder.filename().string());
  fmt::print("uploading {} to hf:{}\n", format_bytes(result.bytes), upload.repository);
  std::fflush(stdout);
  std::atomic<int64_t> done_bytes = 0;
  const hub::Arrived arrived = hub::upload(*client, upload, done_bytes);
  fmt::print("pushed hf:{}, commit {}: {}, {}, with the hashes of what was sent\n", upload.repository, arrived.commit,
             counted(arrived.files, "file"), format_bytes(arrived.bytes));
  return 0;
}

int push(CommandLine& line) {
  const std::optional<PushOptions> options = push_options(line);
  if (!options) return 0;
  if (options->verify) become_hearth_train(line);
  return run_push(*options);
}

}  // namespace hearth::commands
