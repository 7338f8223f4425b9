#include "convert/description.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "config/families.h"

namespace hearth::convert {

void require_plain_llama(const Description& description, std::string_view format) {
  const config::Model& m = description.model;
  const auto refuse = [format](const std::string& key, const char* why, const char* fix) {
    return user_error(fmt::format("{} has no home in {}'s format", key, format), why, fix);
  };
  std::vector<std::string> differences = config::differences(config::find_family("llama"), m);
  // A window stays behind with a note.
  std::erase_if(differences, [](const std::string& text) { return text.starts_with("model.sliding_window"); });
  if (m.head_dim > 0) differences.emplace_back("model.head_dim");
  if (!differences.empty())
    throw refuse(
        differences.front(),
        "it has the first Llamas' layers: rmsnorm, heads of dim / n_heads elements, and no biases or norms of heads",
        m.norm_type == config::NormType::kRmsNorm ? "write Hugging Face's format" : "keep the model native");
  if (description.objective != config::ObjectiveKind::kCausalLm)
    throw refuse(fmt::format("objective.kind = \"{}\"", config::name_of(description.objective)),
                 "its Llama is a causal model of text", "keep the model native");
}

}  // namespace hearth::convert
