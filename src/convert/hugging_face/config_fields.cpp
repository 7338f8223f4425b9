// SPDX-License-Identifier: Apache-2.0
// What each field of config.json does to the computation.
#include <fmt/format.h>

#include <string>

#include "convert/hugging_face/config.h"

namespace hearth::convert {
namespace {

// Fields that do not change the computation of logits. Each name has a space on both sides.
constexpr std::string_view kIgnored =
    " _attn_implementation _attn_implementation_autoset _attn_implementation_internal _commit_hash"
    " _flash_attn_2_enabled _name_or_path architectures aux_loss_alpha ep_size seq_aux attention_dropout "
    "attn_implementation bad_words_ids"
    " begin_suppress_tokens cache_implementation chunk_size_feed_forward decoder_start_token_id diversity_penalty "
    "do_sample dtype embd_pdrop"
    " early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty finetuning_task"
    " forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label initial_context_length initializer_range"
    " label2id"
    " length_penalty load_balance_coeff max_length max_sequence_length min_length model_type moe_capacity"
    " mtp_transformer_layers neftune_noise_alpha no_repeat_ngram_size"
    " num_beam_groups num_beams num_return_sequences output_attentions output_hidden_states output_router_logits"
    " output_scores router_aux_loss_coef"
    " pad_token_id prefix pretraining_tp problem_type remove_invalid_values repetition_penalty resid_pdrop "
    "residual_dropout"
    " return_dict return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss"
    " tokenizer_class top_k top_p torch_dtype torchscript transformers.js_config transformers_version typical_p"
    " unsloth_version use_return_dict use_bfloat16 use_cache use_grouped_mm use_mtp ";

// Fields that this reader uses.
constexpr std::string_view kUsed =
    " vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim"
    " max_position_embeddings rms_norm_eps rope_parameters rope_scaling rope_theta tie_word_embeddings bos_token_id"
    " eos_token_id sliding_window use_sliding_window max_window_layers layer_types no_rope_layers"
    " no_rope_layer_interval is_causal mask_token_id auto_map embedding_multiplier residual_multiplier"
    " attention_multiplier logits_scaling partial_rotary_factor original_max_position_embeddings rope_local_base_freq"
    " query_pre_attn_scalar sliding_window_pattern _sliding_window_pattern num_experts num_local_experts"
    " num_experts_per_tok moe_intermediate_size mlp_only_layers decoder_sparse_step n_routed_experts"
    " num_nextn_predict_layers num_mtp_modules rotary_dim moe_num_experts moe_k moe_layer_end_index"
    " global_attn_every_n_layers mup_enabled qk_head_dim experts_per_token ";

// Fields that must have one of these values, or null.
struct Fixed {
  std::string_view name, values;  // a list in JSON
};
constexpr Fixed kFixed[] = {
    {"activation", R"(["swiglu", "silu", "swish"])"},  // Falcon3; its class reads hidden_act
    {"hidden_act", R"(["silu", "swish"])"},
    {"hidden_activation", R"(["silu", "swish"])"},
    {"attention_bias", "[false]"},
    {"mlp_bias", "[false]"},
    {"clip_qkv", "[]"},
    {"attn_type_list", "[1]"},  // MiniMax-M2: of each layer; 1: softmax attention
    {"is_decoder", "[false, true]"},
    {"is_encoder_decoder", "[false]"},
    {"is_llama_config", "[true]"},  // SmolLM2
    {"add_cross_attention", "[false]"},
    {"cross_attention_hidden_size", "[]"},
    {"tie_encoder_decoder", "[false]"},
    {"pruned_heads", "[{}]"},
    {"quantization_config", "[]"},
    {"swiglu_alpha", "[]"},  // gpt-oss
    {"swiglu_limit", "[]"},
    {"use_mrope", "[false]"},  // Qwen2.5
    {"rope_interleaved", "[false]"},
    {"full_attn_mod", "[1]"},  // Phi-4-mini; its class reads neither this nor the next two
    {"interpolate_factor", "[1]"},
    {"lm_head_bias", "[false]"},
    {"is_quantized", "[false]"},  // ERNIE 4.5; its class reads neither this nor the next two
    {"moe_gate", R"(["topk"])"},
    {"use_rmsnorm", "[true]"},
    {"router_jitter_noise", "[0.0]"},  // Mixtral; its class reads it in trainings alone
    {"attn_logit_softcapping", "[]"},  // Gemma
    {"final_logit_softcapping", "[]"},
    {"use_bidirectional_attention", "[false]"},
};

}  // namespace

FieldRule hugging_face_field(std::string_view name) {
  const std::string word = fmt::format(" {} ", name);
  const bool is_word = name.find(' ') == std::string_view::npos && !name.empty();
  if (is_word && kIgnored.find(word) != std::string_view::npos) return {FieldEffect::kNone, {}};
  if (is_word && kUsed.find(word) != std::string_view::npos) return {FieldEffect::kRead, {}};
  for (const Fixed& fixed : kFixed) {
    if (fixed.name == name) return {FieldEffect::kFixed, fixed.values};
  }
  return {FieldEffect::kUnknown, {}};
}

}  // namespace hearth::convert
