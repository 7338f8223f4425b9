// SPDX-License-Identifier: Apache-2.0
// Names of files and tensors in the folders of GPT-NeoX and NxD, one a line: what is accepted is written back to the
// same ranks, and a folder of such files is refused or read.
#include <fmt/format.h>

#include "convert/neox/files.h"
#include "convert/nxd.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

std::string neox_name(const convert::NeoxFile& file) {
  switch (file.kind) {
    case convert::NeoxFile::Kind::kLayer:
      return fmt::format("layer_{:02}-model_{:02}-model_states.pt", file.layer, file.rank);
    case convert::NeoxFile::Kind::kRank:
      return fmt::format("mp_rank_{:02}_model_states.pt", file.rank);
    case convert::NeoxFile::Kind::kOptimizer:
      break;
  }
  return fmt::format("zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", file.slice, file.rank);
}

void one_name(const std::string& name) {
  if (const auto file = convert::neox_file(name)) {
    require(file->rank >= 0 && file->layer >= 0 && file->slice >= 0, "a negative number");
    const auto again = convert::neox_file(neox_name(*file));
    require(again && again->kind == file->kind && again->rank == file->rank && again->layer == file->layer &&
                again->slice == file->slice,
            "a name that means something else when it is written");
  }
  if (const auto tensor = convert::neox_tensor_name(name))
    require(tensor->layer >= 0 && !tensor->rest.empty() && name.ends_with("." + tensor->rest), "a part of no name");
}

// Files with these names in a folder of NxD.
void nxd_folder(const std::vector<std::string>& names) {
  const Path folder = scratch() / "nxd";
  remove_tree(folder);
  make_folders(folder);
  for (const std::string& name : names) {
    if (name.empty() || name.size() > 100 || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos || name == "." || name == "..")
      continue;
    File file = File::create(folder / name);
    file.write(name.size() > 50 ? "" : "step_1\n");
    file.close();
  }
  convert::is_nxd(folder);
  accepted([&] { convert::nxd_model_folder(folder); });
  accepted([&] {
    for (const convert::NxdFile& file : convert::nxd_files(folder)) {
      require(file.tp >= 0 && file.pp >= 0, "a negative rank");
      require(path_exists(folder / file.name), "a file that is not there");
    }
  });
}

}  // namespace

void run(std::string_view input) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= input.size() && names.size() < 8;) {
    const size_t end = std::min(input.find('\n', at), input.size());
    names.emplace_back(input.substr(at, end - at));
    at = end + 1;
  }
  for (const std::string& name : names) one_name(name);
  nxd_folder(names);
}

std::vector<std::string> seeds() {
  return {"layer_05-model_01-model_states.pt\nmp_rank_03_model_states.pt\nsequential.2.attention.dense.weight\n",
          "bf16_zero_pp_rank_3_mp_rank_01_optim_states.pt\nzero_pp_rank_0_mp_rank_00_optim_states.pt\n5.norm.scale\n",
          "dp_rank_00_ep_rank_00_tp_rank_01_pp_rank_02.pt\ndp_rank_01_tp_rank_00_pp_rank_00.pt\n"
          "tp_rank_00_pp_rank_00\ntp_rank_00_pp_rank_00.pt.info.pt\n",
          "tied_modules.embed.\ntied_modules.embed.word_embeddings.weight\n",
          "newest\nstep_1\ncheckpoint\ndp_rank_00_ep_rank_01_tp_rank_00_pp_rank_00.pt\n"};
}

}  // namespace hearth::fuzz
