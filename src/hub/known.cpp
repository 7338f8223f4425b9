// SPDX-License-Identifier: Apache-2.0
#include "hub/known.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace hearth::hub {
namespace {

// A model's weights once, without the copies of other formats.
constexpr std::string_view kWeights = "*.json *.safetensors tokenizer.model README.md LICENSE*";
constexpr std::string_view kLlama =
    "*.json *.safetensors tokenizer.model original/tokenizer.model README.md LICENSE* USE_POLICY*";
constexpr std::string_view kGated = "accept the conditions on the repository's page and set HF_TOKEN";

constexpr Known kKnown[] = {
    {"zyda-2", "hf:datasets/Zyphra/Zyda-2", "odc-by", "data/* README.md",
     "web text, 5 T tokens in four parts (Parquet)", "one part: --include \"data/fwe3/*\""},
    {"stack-v2-ids", "hf:datasets/bigcode/the-stack-v2-train-smol-ids", "other (terms of use)", "",
     "the Stack-v2 recipe's list of source code, 525 B tokens",
     "these are identifiers and licences; the code itself is in Software Heritage's bucket, and BigCode's page says "
     "how to ask for it; accept the conditions there and set HF_TOKEN"},
    {"finemath", "hf:datasets/HuggingFaceTB/finemath", "odc-by", "finemath-3plus/* README.md",
     "mathematical web text, 34 B tokens (Parquet)"},
    {"fineweb-edu-10bt", "hf:datasets/HuggingFaceFW/fineweb-edu", "odc-by", "sample/10BT/* README.md",
     "educational web text, a sample of 10 B tokens (Parquet)"},
    {"neural-pile-primate", "hf:datasets/eminorhan/neural-pile-primate", "none named", "",
     "recordings of spikes of primates, 34 B counts (Parquet)"},
    {"neural-pile-rodent", "hf:datasets/eminorhan/neural-pile-rodent", "none named", "",
     "recordings of spikes of rodents (Parquet)"},
    {"proof-pile-2", "hf:datasets/EleutherAI/proof-pile-2", "of its parts", "",
     "mathematics: arXiv, web and code, 55 B tokens (JSON lines, zstd)"},
    {"llama-3.1-8b", "hf:meta-llama/Llama-3.1-8B", "llama3.1", kLlama, "Llama 3.1, 8 B parameters", kGated},
    {"llama-3.2-1b", "hf:meta-llama/Llama-3.2-1B", "llama3.2", kLlama, "Llama 3.2, 1 B parameters", kGated},
    {"llama-3.2-3b", "hf:meta-llama/Llama-3.2-3B", "llama3.2", kLlama, "Llama 3.2, 3 B parameters", kGated},
    {"llama-3-8b", "hf:meta-llama/Meta-Llama-3-8B", "llama3", kLlama, "Llama 3, 8 B parameters", kGated},
    {"llama-2-7b", "hf:meta-llama/Llama-2-7b-hf", "llama2", kLlama, "Llama 2, 7 B parameters", kGated},
    {"code-llama-7b", "hf:codellama/CodeLlama-7b-hf", "llama2", kWeights, "Code Llama, 7 B parameters"},
    {"code-llama-34b", "hf:codellama/CodeLlama-34b-hf", "llama2", kWeights, "Code Llama, 34 B parameters"},
    {"llemma-7b", "hf:EleutherAI/llemma_7b", "llama2", "*.json *.bin *.safetensors tokenizer.model README.md",
     "Llemma, 7 B parameters"},
    {"smollm2-135m", "hf:HuggingFaceTB/SmolLM2-135M", "apache-2.0", kWeights, "SmolLM2, 135 M parameters"},
    {"smollm2-360m", "hf:HuggingFaceTB/SmolLM2-360M", "apache-2.0", kWeights, "SmolLM2, 360 M parameters"},
    {"smollm2-1.7b", "hf:HuggingFaceTB/SmolLM2-1.7B", "apache-2.0", kWeights, "SmolLM2, 1.7 B parameters"},
    {"olmo-1b", "hf:allenai/OLMo-1B-hf", "apache-2.0", kWeights, "OLMo, 1 B parameters"},
};

}  // namespace

std::span<const Known> known_names() { return kKnown; }

const Known* find_known(std::string_view short_name) {
  const auto* found = std::ranges::find(kKnown, short_name, &Known::short_name);
  return found == std::end(kKnown) ? nullptr : found;
}

std::vector<std::string> include_patterns(const Known& known) {
  return known.include.empty() ? std::vector<std::string>() : split(known.include, ' ');
}

std::string format_known() {
  std::string text = fmt::format("{:20}  {:54}  {:20}  {}\n", "name", "repository", "licence", "content");
  for (const Known& known : kKnown)
    text += fmt::format("{:20}  {:54}  {:20}  {}\n", known.short_name, known.name, known.licence, known.what);
  return text;
}

}  // namespace hearth::hub
