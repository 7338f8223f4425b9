#include "convert/description.h"

#include <fmt/format.h>

#include "base/error.h"

namespace hearth::convert {

void require_plain_llama(const Description& description, std::string_view format) {
  const config::Model& m = description.model;
  const auto refuse = [format](const std::string& key, const char* why, const char* fix) {
    return user_error(fmt::format("{} has no home in {}'s format", key, format), why, fix);
  };
  if (m.norm_type != config::NormType::kRmsNorm)
    throw refuse(fmt::format("model.norm_type = \"{}\"", config::name_of(m.norm_type)), "its Llama has rmsnorm only",
                 "keep the model native");
  if (m.qkv_bias || m.qk_norm || m.head_dim > 0)
    throw refuse(m.qkv_bias  ? "model.qkv_bias"
                 : m.qk_norm ? "model.qk_norm"
                             : "model.head_dim",
                 "its Llama has heads of dim / n_heads elements, without biases or norms of their own",
                 "write Hugging Face's format");
  if (description.objective != config::ObjectiveKind::kCausalLm)
    throw refuse(fmt::format("objective.kind = \"{}\"", config::name_of(description.objective)),
                 "its Llama is a causal model of text", "keep the model native");
}

}  // namespace hearth::convert
