// src/models/*/family.toml against the classes of transformers.
#include "config/families.h"

#include <nlohmann/json.hpp>

#include "foreign.h"

namespace hearth::convert {
namespace {

TEST(Families, HaveTheDefaultsOfTheirClasses) {
  HEARTH_NEEDS_ORACLE();
  for (const config::Family& family : config::families()) {
    const config::HuggingFaceClass& c = family.hugging_face;
    const bool is_switched = c.window == config::Window::kSwitched;
    const std::string words = fmt::format("{} {}", c.architecture, is_switched ? 1 : 0);
    const nlohmann::json found =
        nlohmann::json::parse(last_line(test::run_python("tests/convert/class_defaults.py " + words), words));
    const int64_t heads = c.num_key_value_heads > 0 ? c.num_key_value_heads : 6;
    const nlohmann::json ours = {
        c.model_type,  c.max_position_embeddings, heads, c.head_dim > 0 ? c.head_dim : 16, c.sliding_window,
        c.rms_norm_eps};
    EXPECT_EQ(ours, found) << family.name;
  }
}

}  // namespace
}  // namespace hearth::convert
