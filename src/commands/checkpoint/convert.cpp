// SPDX-License-Identifier: Apache-2.0
// `hearth convert`: weights from and to the formats of other programs.
#include <limits>

#include "base/log.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/progress_line.h"
#include "commands/torch_options.h"
#include "config/choices.h"
#include "hub/name.h"

namespace hearth::commands {
namespace {

constexpr const char* kKindHelp =
    "native: Hearth's, with hearth.json; dcp: a folder of torch.distributed.checkpoint with torchtitan's names of "
    "2025; torchtitan: the same with the names of torchtitan 0.3; hf: Hugging Face's config.json and safetensors; "
    "meta: Meta's params.json and consolidated.00.pth; neox: GPT-NeoX's global_step0; nxd: AWS Neuron's NxD";

// A word of an option, and what it means.
template <typename Value>
using Word = std::pair<std::string_view, Value>;

constexpr Word<DType> kDtypes[] = {
    {"bfloat16", DType::kBFloat16}, {"float16", DType::kFloat16}, {"float32", DType::kFloat32}};
constexpr Word<convert::QkvLayout> kQkvLayouts[] = {{"slots", convert::QkvLayout::kSlots},
                                                    {"split", convert::QkvLayout::kSplit}};
constexpr Word<convert::NxdNames> kNxdNames[] = {{"v1", convert::NxdNames::kV1},
                                                 {"v2", convert::NxdNames::kV2},
                                                 {"v3", convert::NxdNames::kV3},
                                                 {"pretrained", convert::NxdNames::kPretrained}};
constexpr Word<convert::NxdQkv> kNxdQkv[] = {
    {"separate", convert::NxdQkv::kSeparate}, {"module", convert::NxdQkv::kModule}, {"fused", convert::NxdQkv::kFused}};

template <typename Value, size_t N>
Allowed one_of_words(const Word<Value> (&words)[N]) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.emplace_back(name);
  return one_of(names);
}
// nullopt if `given` is empty. Otherwise it is one of the words.
template <typename Value, size_t N>
std::optional<Value> find_word(const Word<Value> (&words)[N], const std::string& given) {
  for (const auto& [name, value] : words)
    if (name == given) return value;
  return std::nullopt;
}

int64_t file_size_of(const std::string& text) {
  const std::optional<int64_t> bytes = parse_bytes(text);
  if (!bytes || *bytes == 0)
    throw user_error(fmt::format("--max-file-size {} is not a size", text), {}, "write it as 5GB or 500 MiB");
  return *bytes;
}

// The options of NxD's files.
struct NxdOptions {
  convert::NxdLayout given;
  std::string names, qkv;

  void add_to(CommandLine& line) {
    line.option("--nxd-names VERSION", &names, one_of_words(kNxdNames),
                "of an OUT of the kind nxd: v3 (with ep_rank), v2 (with dp_rank), v1, or pretrained (the start of a "
                "training); by default v3");
    line.option("--nxd-qkv LAYOUT", &qkv, one_of_words(kNxdQkv),
                "of an OUT of the kind nxd: separate (q_proj, k_proj, v_proj), module (qkv_proj.weight_q, weight_k, "
                "weight_v) or fused (one matrix); by default separate");
    line.flag("--xser", &given.xser, "of an OUT of the kind nxd: each tensor in a file of its own, as xser saves them");
  }
  // Empty if none was given.
  std::optional<convert::NxdLayout> layout() const {
    if (names.empty() && qkv.empty() && !given.xser) return std::nullopt;
    convert::NxdLayout found = given;
    found.names = find_word(kNxdNames, names).value_or(found.names);
    found.qkv = find_word(kNxdQkv, qkv).value_or(found.qkv);
    return found;
  }
};

}  // namespace

std::optional<ConvertOptions> convert_options(CommandLine& line) {
  ConvertOptions all;
  convert::Options& options = all.options;
  NxdOptions nxd;
  std::string from, to, dtype, pairs, layout, to_layout, max_file;
  constexpr int64_t kNotGiven = std::numeric_limits<int64_t>::min();
  convert::Upcycling upcycling{kNotGiven, kNotGiven};
  std::vector<std::string> kinds;
  for (const convert::Kind kind : convert::kKinds) kinds.emplace_back(convert::kind_name(kind));
  line.positional("IN", &options.in, "folder with the weights; of a run's folder, its newest checkpoint");
  line.positional("OUT", &options.out, "folder to write; it must not exist");
  line.option("--to KIND", &to, one_of(kinds), kKindHelp).required();
  line.option("--from KIND", &from, one_of(kinds), "kind of IN; by default it is found from the files");
  line.option("--dtype TYPE", &dtype, one_of_words(kDtypes), "type of the weights in OUT; by default IN's");
  line.option("--rope-pairs ORDER", &pairs, one_of({"halves", "interleaved"}),
              "of a native OUT: model.rope_pairs, the order of the rows of queries and keys; by default IN's order, so "
              "that nothing moves");
  line.option("--config RUN.toml", &options.config,
              "run file whose [model] describes an IN of the kind dcp, neox or nxd, which do not describe themselves; "
              "where IN has a training's state, the other keys say how the training goes on");
  line.option("--qkv-layout LAYOUT", &layout, one_of_words(kQkvLayouts),
              "of neox with fewer keys than queries: slots (a head's query, key and value together) or split (all "
              "queries, all keys, all values); only needed where the names of the files leave it open");
  line.option("--to-qkv-layout LAYOUT", &to_layout, one_of_words(kQkvLayouts),
              "of an OUT of the kind neox, which needs it: slots with mlp.w1, w2, w3, for Llemma's branch; split with "
              "mlp.linear1, linear2, for GPT-NeoX since November 2024");
  line.option("--tensor-parallel N", &options.tensor_parallel,
              "of an OUT of the kind meta, neox or nxd: number of ranks that share each layer");
  line.option("--pipeline-parallel N", &options.pipeline_parallel,
              "of an OUT of the kind neox or nxd: number of stages of layers");
  line.option("--upcycle EXPERTS", &upcycling.experts,
              "of a native OUT: each feed-forward becomes a mixture of so many copies of it, with a router of random "
              "weights, which computes what IN computes (sparse upcycling); train it on with "
              "checkpoint.initial_load_path; by default none");
  line.option("--moe-top-k K", &upcycling.top_k, "of --upcycle: the experts that a token takes; by default 2");
  nxd.add_to(line);
  line.flag("--resume", &options.resume,
            "of an OUT of the kind torchtitan, neox or nxd: with moments, the optimizer's settings, step and schedule, "
            "so that torchtitan 0.3, GPT-NeoX or NxD goes on with the training");
  line.option("--data-parallel N", &options.data_parallel,
              "of an OUT of the kind neox or nxd with --resume: ranks of data parallel that share the moments "
              "(ZeRO-1); the run that goes on has as many");
  line.option("--tokenizer NAME", &options.tokenizer, "tokenizer in place of IN's: a file, a folder, bytes, ids:N");
  line.option("--max-file-size SIZE", &max_file, "of hf: weights beyond this size go to another file; by default 5GB");
  line.flag(
      "--verify", &all.verify,
      "compute the logits of a few sequences of random tokens from both sides and compare them before OUT gets its "
      "name; equal bits, or within float32's rounding where rows change their order; exit code 3 if they differ");
  if (!line.parse()) return std::nullopt;
  options.in = hub::find_fetched(options.in.string());
  options.from = convert::find_kind_name(from);
  options.to = *convert::find_kind_name(to);
  options.dtype = find_word(kDtypes, dtype);
  options.rope_pairs = config::find_choice<config::RopePairs>(pairs);
  options.qkv_layout = find_word(kQkvLayouts, layout);
  options.to_layout = find_word(kQkvLayouts, to_layout);
  options.nxd = nxd.layout();
  if (upcycling.experts != kNotGiven) {
    if (upcycling.top_k == kNotGiven) upcycling.top_k = 2;
    options.upcycling = upcycling;
  } else if (upcycling.top_k != kNotGiven) {
    throw user_error("--moe-top-k is for --upcycle", "only new experts have a number for each token", "leave it out");
  }
  if (!max_file.empty()) options.max_file_bytes = file_size_of(max_file);
  return all;
}

std::string conversion_bar(const convert::ConvertProgress& progress, double seconds) {
  if (const int64_t all = progress.upload.all_bytes; all > 0)
    return bytes_bar("upload", progress.upload.done_bytes, all);
  return bytes_bar("writing", progress.done_bytes, progress.all_bytes, seconds);
}

int run_convert(const convert::Options& options) {
  convert::ConvertProgress progress;
  const Stopwatch clock;
  const convert::Result result = with_progress([&] { return conversion_bar(progress, clock.seconds()); },
                                               [&] { return convert::convert(options, progress); });
  for (const std::string& note : result.notes) fmt::print("note: {}\n", note);
  fmt::print("wrote {}: {} to {}, {} parameters in {}, {} in {}\n", options.out.string(),
             convert::kind_name(result.from), convert::kind_name(options.to),
             format_count(static_cast<double>(result.parameters)), counted(result.tensors, "tensor"),
             format_bytes(result.bytes), format_duration(clock.seconds()));
  return 0;
}

int convert(CommandLine& line) {
  const std::optional<ConvertOptions> all = convert_options(line);
  if (!all) return 0;
  if (all->verify) become_hearth_train(line);
  return run_convert(all->options);
}

}  // namespace hearth::commands
