// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face and params.json of Meta: what is accepted is a model whose sizes fit together.
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
    require(d.model.sliding_window == 0 || d.max_positions <= d.model.sliding_window, "sequences beyond the window");
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
  return texts;
}

}  // namespace hearth::fuzz
