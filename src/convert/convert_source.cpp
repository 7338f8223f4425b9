// SPDX-License-Identifier: Apache-2.0
// Opens the source of a conversion, and what a conversion wrote, with every key of their model.
#include <fmt/format.h>

#include "base/error.h"
#include "config/load.h"
#include "convert/convert.h"
#include "convert/names.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

Source open_described(const Options& options, const std::optional<config::RunConfig>& run) {
  const FoundWeights found = find_weights(options.in, options.from);
  const bool is_silent = found.kind == Kind::kDcp || found.kind == Kind::kNeox || found.kind == Kind::kNxd;
  if (!is_silent && !options.config.empty())
    throw user_error("--config is for folders of PyTorch's DCP, GPT-NeoX and NxD",
                     fmt::format("{} describes its model itself", found.folder.string()), "leave it out");
  if (found.kind != Kind::kNeox && options.qkv_layout)
    throw user_error("--qkv-layout is for GPT-NeoX's folders",
                     fmt::format("{} is of the kind {}", found.folder.string(), kind_name(found.kind)), "leave it out");
  const bool same_program = options.to == Kind::kDcp && found.kind == Kind::kDcp;
  if (is_silent && options.config.empty() && !same_program)
    throw user_error(fmt::format("{} does not describe its model", found.folder.string()),
                     "its weights have names and shapes only",
                     "give --config RUN.toml: a run file whose [model] is this model's");
  if (!run) return open_source(found);
  const Description description = description_of(*run);
  Source source = open_source(found, &description, options.qkv_layout);
  if (!source.description) source.description = description;
  return source;
}

// Makes every size of [model] explicit, and finds weights that are tied though the format cannot say so.
void complete(Source& source) {
  config::Model& m = source.description->model;
  complete_vocabulary(source);
  const plan::ModelShape shape = plan::model_shape(m, 0);
  m.n_kv_heads = shape.G;
  m.hidden_dim = plan::feed_forward_width(m);
  m.flavor.clear();
  m.ffn_dim_multiplier = 0;
  if (source.reader.find(kOutput) == nullptr || (!m.enable_weight_tying && source.kind != Kind::kMeta)) return;
  const bool same = output_is_embedding(source.reader);
  if (m.enable_weight_tying && !same)
    throw user_error(fmt::format("{}: output.weight differs from the embedding", source.reader.folder().string()),
                     "model.enable_weight_tying says that they are one matrix", "set it to false");
  if (same && !m.enable_weight_tying)
    source.notes.emplace_back("output.weight equals the embedding: the weights are tied");
  m.enable_weight_tying = same;
}

}  // namespace

std::optional<config::RunConfig> keys_of(const Options& options) {
  if (options.config.empty()) return std::nullopt;
  config::LoadResult loaded = config::read_run(options.config, {});
  config::throw_all(loaded, {});
  return std::move(loaded.config);
}

Source open_source_of(const Options& options) {
  Source source = open_described(options, keys_of(options));
  if (source.description) complete(source);
  return source;
}

Source open_written(const Written& written) {
  Source source = open_source(find_weights(written.folder, written.kind), &written.description, written.qkv_layout);
  if (!source.description) source.description = written.description;
  complete(source);
  return source;
}

}  // namespace hearth::convert
