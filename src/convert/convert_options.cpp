// SPDX-License-Identifier: Apache-2.0
// Options that do not go together.
#include <fmt/format.h>

#include "base/error.h"
#include "convert/convert.h"

namespace hearth::convert {
namespace {

constexpr int64_t kMostSlices = 100'000;

}  // namespace

void require_new(const Path& out) {
  if (path_exists(out))
    throw user_error(fmt::format("{} exists", out.string()), "a conversion overwrites nothing",
                     "give another name, or remove it");
}

void check_options(const Options& options) {
  const auto refuse_if = [&](bool is_given, std::string_view option, const char* why,
                             const char* fix = "leave it out") {
    if (is_given) throw user_error(fmt::format("{} does not go with --to {}", option, kind_name(options.to)), why, fix);
  };
  const bool has_stages = options.to == Kind::kNeox || options.to == Kind::kNxd;
  const bool has_ranks = has_stages || options.to == Kind::kMeta;
  if (options.out.empty()) throw user_error("OUT is empty", {}, "give the folder to write");
  require_new(options.out);
  refuse_if(options.max_file_bytes && options.to != Kind::kHuggingFace, "--max-file-size",
            "only Hugging Face's weights are cut into files of a size");
  refuse_if(options.rope_pairs && options.to != Kind::kNative, "--rope-pairs", "the format has one order");
  refuse_if(options.upcycling && options.to != Kind::kNative, "--upcycle", "a mixture of experts is trained first",
            "give --to native, and convert the trained model");
  refuse_if(options.resume && options.to != Kind::kTorchtitan && !has_stages, "--resume",
            "it adds what torchtitan, GPT-NeoX and NxD ask for; native and dcp have a training's state without "
            "it, and other kinds have no home for it",
            "leave it out, or give --to torchtitan, neox or nxd");
  if (options.resume && options.nxd && options.nxd->names == NxdNames::kPretrained)
    throw user_error("--resume does not go with --nxd-names pretrained", "these files begin a training",
                     "leave out one of them");
  if (!(has_stages && options.resume) && options.data_parallel != 1)
    throw user_error("--data-parallel is for --to neox --resume and --to nxd --resume",
                     "only the moments of GPT-NeoX and NxD are shared by ranks of data parallel", "leave it out");
  if (options.data_parallel < 1 || options.data_parallel > kMostSlices)
    throw user_error(fmt::format("--data-parallel {} is not a number of ranks", options.data_parallel), {},
                     fmt::format("give one from 1 to {}", kMostSlices));
  if (options.to == Kind::kNeox && !options.to_layout)
    throw user_error("--to neox needs --to-qkv-layout", "versions of GPT-NeoX differ in it, and shapes are equal",
                     "give slots for Llemma's branch, split for GPT-NeoX since November 2024");
  refuse_if(options.to != Kind::kNeox && options.to_layout, "--to-qkv-layout", "it is about GPT-NeoX's files");
  if (options.to != Kind::kNxd && options.nxd)
    throw user_error(fmt::format("--nxd-names, --nxd-qkv and --xser do not go with --to {}", kind_name(options.to)),
                     "they are about NxD's files", "leave them out");
  refuse_if(!has_stages && options.pipeline_parallel != 1, "--pipeline-parallel",
            "only files of neox and nxd are those of stages");
  refuse_if(!has_ranks && options.tensor_parallel != 1, "--tensor-parallel",
            "only files of meta, neox and nxd are those of ranks");
}

}  // namespace hearth::convert
