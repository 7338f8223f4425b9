// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face and params.json of Meta: what is accepted is a model whose sizes fit together.
#include "config/derived.h"
#include "config/families.h"
#include "convert/hugging_face/config.h"
#include "convert/meta/params.h"
#include "plan/parameters.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  std::vector<std::string> notes;
  accepted([&] {
    const convert::Description d = convert::parse_hugging_face_config(input, "fuzz", notes);
    plan::model_shape(d.model, 0);
    require(d.model.n_heads % d.model.n_kv_heads == 0, "heads that do not fit");
    const std::string text = convert::format_hugging_face_config(d, DType::kFloat32);
    const convert::Description again = convert::parse_hugging_face_config(text, "written", notes);
    require(again.model.rope_theta == d.model.rope_theta && again.model.norm_eps == d.model.norm_eps, "a lost number");
    require(again.model.sliding_window == d.model.sliding_window, "a lost window");
    require(again.model.no_rope_layer_interval == d.model.no_rope_layer_interval, "lost layers without rotation");
    for (int64_t layer = 0; layer < d.model.n_layers; ++layer)
      require(config::window_of_layer(again.model, layer) == config::window_of_layer(d.model, layer),
              "a window in another layer");
    require(again.objective == d.objective && again.mask == d.mask, "a lost objective");
  });
  accepted([&] {
    convert::Description d = convert::parse_meta_params(input, "fuzz", notes);
    d.model.hidden_dim = 12345;
    convert::format_meta_params(d);
  });
}

std::vector<std::string> seeds() {
  convert::Description d;
  d.model.n_kv_heads = 2;
  d.model.hidden_dim = 700;
  d.model.vocab_size = 300;
  d.max_positions = 100;
  d.bos = 1;
  d.eos = {2, 3};
  const std::string plain = convert::format_hugging_face_config(d, DType::kBFloat16),
                    meta = convert::format_meta_params(d);
  d.model.rope_scaling_factor = 8;
  std::vector<std::string> texts = {plain, meta, convert::format_hugging_face_config(d, DType::kFloat32),
                                    convert::format_meta_params(d)};
  d.model.sliding_window = 100;
  d.objective = config::ObjectiveKind::kMaskedLm;
  d.mask = 3;
  for (const bool is_qwen : {false, true}) {
    d.model.qkv_bias = is_qwen;
    texts.push_back(convert::format_hugging_face_config(d, DType::kFloat32));
  }
  d.model.qkv_bias = false;
  d.model.rope_scaling_factor = 1;
  d.model.sliding_window = 0;
  d.objective = config::ObjectiveKind::kMaskedDiffusion;
  texts.push_back(convert::format_hugging_face_config(d, DType::kFloat32));
  // Encoders, and windows with a pattern.
  d.objective = config::ObjectiveKind::kMaskedLm;
  for (const char* family : {"modernbert", "gemma3", "exaone4"}) {
    convert::Description other = d;
    if (family != std::string_view("modernbert")) other.objective = config::ObjectiveKind::kCausalLm;
    other.model = {};
    config::apply(config::find_family(family), other.model);
    other.model.n_layers = 6, other.model.dim = 64, other.model.n_heads = 4, other.model.n_kv_heads = 4;
    other.model.hidden_dim = 96, other.model.vocab_size = 300, other.model.rope_pairs = config::RopePairs::kHalves;
    other.model.sliding_window = 32, other.model.full_attention_interval = 3, other.model.rope_local_theta = 500;
    if (family == std::string_view("modernbert")) other.model.first_full_attention_layer = 0;
    if (family == std::string_view("gemma3")) other.model.embedding_multiplier = 8;
    if (family == std::string_view("exaone4")) {
      other.model.rope_local_theta = 0;
      other.model.no_rope_layer_interval = 3;
    }
    texts.push_back(convert::format_hugging_face_config(other, DType::kFloat32));
  }
  return texts;
}

}  // namespace hearth::fuzz
