// SPDX-License-Identifier: Apache-2.0
#include "hub/fetch.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "commands/commands.h"
#include "commands/progress_line.h"
#include "hub/known.h"

namespace hearth::commands {
namespace {

// The repository of a short name, with its patterns, or of an hf: name.
hub::FetchRequest requested(const std::string& name, const std::string& out) {
  hub::FetchRequest request;
  const hub::Known* known = hub::find_known(name);
  if (known == nullptr && !hub::is_name(name))
    throw user_error(fmt::format("there is no \"{}\" to fetch", name),
                     "it is neither a name of the list nor a name of the Hub",
                     "hearth fetch --list prints the list; or write hf:ORG/NAME or hf:datasets/ORG/NAME");
  request.name = hub::parse_name(known != nullptr ? known->name : name);
  if (known != nullptr) request.include = hub::include_patterns(*known);
  request.folder = out.empty() ? hub::folder_of(request.name) : Path(out);
  return request;
}

// Asks on a terminal. Elsewhere there is nobody to ask.
bool is_confirmed() {
  if (::isatty(STDIN_FILENO) != 1)
    throw user_error("nobody confirmed the download", "there is no terminal to ask on", "give --yes");
  std::fputs("Download? [y/N] ", stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

void print_offer(const hub::FetchRequest& request, const hub::Offer& offer, const hub::Known* known) {
  const std::string& licence = offer.manifest.licence;
  fmt::print("{}\n  licence  {}\n", offer.manifest.name,
             licence.empty() ? "none named: see the repository's page" : licence);
  if (offer.is_gated) fmt::print("  access   its owner asks to accept conditions on its page\n");
  fmt::print("  commit   {}\n  size     {} in {}, {} to download\n  folder   {}\n", offer.manifest.commit,
             format_bytes(offer.bytes), counted(std::ssize(offer.manifest.files), "file"),
             format_bytes(offer.bytes_left), request.folder.string());
  if (!offer.removed.empty())
    fmt::print("  removed  {} of an earlier commit\n", counted(std::ssize(offer.removed), "file"));
  if (known != nullptr && !known->note.empty()) fmt::print("  note     {}\n", known->note);
  std::fflush(stdout);
}

}  // namespace

int fetch(CommandLine& line) {
  std::string name, out;
  std::vector<std::string> include, exclude;
  bool offline = false, yes = false, list = false;
  line.positional("NAME", &name,
                  "hf:ORG/NAME, a model of the Hugging Face Hub; hf:datasets/ORG/NAME, a dataset; @REVISION after "
                  "either; or a name of --list")
      .optional();
  line.option("--out DIR", &out,
              "folder for the files; by default the one in which other commands look for hf: names, below HEARTH_HUB "
              "or the user's cache folder");
  line.option("--include GLOB", &include, "only files whose path matches, such as \"*.safetensors\"");
  line.option("--exclude GLOB", &exclude, "no files whose path matches");
  line.flag("--offline", &offline, "use no network: check what is there and say what is missing");
  line.flag("--yes", &yes, "download without a question");
  line.flag("--list", &list, "print the names of data and weights that Hearth's recipes use");
  line.append("HF_TOKEN is the token for private and gated repositories, HF_ENDPOINT another server.");
  if (!line.parse()) return 0;
  if (list) {
    fmt::print("{}", hub::format_known());
    return 0;
  }
  if (name.empty()) throw user_error("there is nothing to fetch", "", "give NAME; --list prints the known ones");
  hub::FetchRequest request = requested(name, out);
  if (!include.empty()) request.include = include;
  request.exclude = exclude;

  hub::FetchProgress progress;
  if (offline) {
    const hub::FetchManifest manifest = hub::check_offline(request, progress);
    fmt::print("{}: {} of {}, commit {}, with the Hub's hashes\n", request.folder.string(),
               counted(std::ssize(manifest.files), "file"), manifest.name, manifest.commit);
    return 0;
  }
  const hub::Client client = hub::Client::find_or_install();
  const hub::Offer offer = hub::make_offer(client, request);
  print_offer(request, offer, hub::find_known(name));
  if (offer.bytes_left > 0 && !yes && !is_confirmed()) return 0;
  with_progress([&] { return bytes_bar(progress.checks ? "checking" : "download", progress.bytes, offer.bytes); },
                [&] { hub::download(client, request, offer, progress); });
  fmt::print("fetched {}: {} with the Hub's hashes\n", request.folder.string(),
             counted(std::ssize(offer.manifest.files), "file"));
  return 0;
}

}  // namespace hearth::commands
