# SPDX-License-Identifier: Apache-2.0
"""The configurations of the models that foreign.py makes."""


def rope_of(a):
    rope = {"rope_type": "default", "rope_theta": a["theta"]}
    if a["scaled"]:
        rope |= {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 8192}
    if a["type"] == "phi3":  # half of a head rotates; texts of more than 16 tokens have the long factors
        rope |= {"rope_type": "longrope", "short_factor": [1, 1.1, 1.5, 2], "long_factor": [1, 2.5, 3, 9.5],
                 "partial_rotary_factor": 0.5}
    if a["type"] == "gpt_oss":
        rope |= {"rope_type": "yarn", "factor": 8.0, "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False,
                 "original_max_position_embeddings": 8}
    if a["type"] == "ministral3":
        rope |= {"rope_type": "yarn", "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 4.0,
                 "beta_slow": 0.5, "original_max_position_embeddings": 8, "llama_4_scaling_beta": 0.5}
    if a["type"] == "deepseek_v3":
        rope |= {"rope_type": "yarn", "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 4.0,
                 "beta_slow": 0.5, "original_max_position_embeddings": 8}
    if a["type"] == "gemma3_text":
        return {"sliding_attention": rope, "full_attention": rope | {"rope_type": "linear", "factor": 8.0}}
    if a["type"] == "olmo3":
        return {"sliding_attention": rope, "full_attention": rope | {
            "rope_type": "yarn", "factor": 8.0, "beta_fast": 4.0, "beta_slow": 0.5, "attention_factor": 1.2,
            "original_max_position_embeddings": 8}}
    return rope


def config_of(a):
    import transformers
    if a["type"] == "modernbert":  # the base of windows, and the window, are not the class's
        rope = {"full_attention": {"rope_type": "default", "rope_theta": a["theta"]},
                "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}
        return transformers.ModernBertConfig(
            vocab_size=a["V"], hidden_size=a["D"], intermediate_size=a["F"], num_hidden_layers=a["L"],
            num_attention_heads=a["H"], rope_parameters=rope, local_attention=10, global_attn_every_n_layers=2,
            max_position_embeddings=a["positions"], tie_word_embeddings=bool(a["tied"]), bos_token_id=1,
            eos_token_id=2, cls_token_id=1, sep_token_id=2, pad_token_id=None)
    if a["type"] == "neobert":  # 2/3 of this width is no multiple of 8
        from neobert import NeoBertConfig
        return NeoBertConfig(vocab_size=a["V"], hidden_size=a["D"], intermediate_size=a["F"] * 3 // 2 + 5,
                             num_hidden_layers=a["L"], num_attention_heads=a["H"], norm_eps=1e-5)
    keys = dict(vocab_size=a["V"], hidden_size=a["D"], intermediate_size=a["F"], num_hidden_layers=a["L"],
                num_attention_heads=a["H"], num_key_value_heads=a["G"], rope_parameters=rope_of(a), bos_token_id=1,
                max_position_embeddings=a["positions"], tie_word_embeddings=bool(a["tied"]), eos_token_id=2)
    names = {"smollm3": "SmolLM3", "seed_oss": "SeedOss", "gemma3_text": "Gemma3Text", "qwen3_moe": "Qwen3Moe",
             "glm4_moe": "Glm4Moe", "minimax_m2": "MiniMaxM2", "ernie4_5_moe": "Ernie4_5_Moe",
             "deepseek_v3": "DeepseekV3", "gpt_oss": "GptOss"}
    made = getattr(transformers, names.get(a["type"], a["type"].capitalize()) + "Config")
    more = {"smollm3": {"no_rope_layer_interval": 2}, "olmo3": {"sliding_window": 7},
            "olmoe": {"num_experts": 6, "num_experts_per_tok": 2}}.get(a["type"], {})
    if a["type"] == "gemma3_text":
        return made(**keys, head_dim=a["K"] or 16, query_pre_attn_scalar=20, sliding_window=7, pad_token_id=None,
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"][:a["L"]])
    if a["type"] == "exaone4":
        return made(**keys, head_dim=a["K"] or 16, sliding_window=7, sliding_window_pattern=2, pad_token_id=None)
    if a["type"] in ("gemma", "glm4"):
        return made(**keys, head_dim=a["K"] or 16, pad_token_id=None)
    if a["type"] == "phi3":
        return made(**keys, pad_token_id=None, original_max_position_embeddings=16)
    if a["type"] == "qwen3_moe":
        return made(**keys, head_dim=a["K"] or 16, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True,
                    moe_intermediate_size=a["F"] // 2, mlp_only_layers=[0], pad_token_id=None)
    if a["type"] == "afmoe":
        return made(**keys, head_dim=a["K"] or 16, num_experts=6, num_experts_per_tok=2, num_shared_experts=1,
                    moe_intermediate_size=a["F"] // 2, num_dense_layers=1, route_scale=1.7, sliding_window=7,
                    global_attn_every_n_layers=2, mup_enabled=True, pad_token_id=None)
    if a["type"] == "dots1":  # windows from the third layer on
        return made(**keys, head_dim=a["K"] or 16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
                    moe_intermediate_size=a["F"] // 2, first_k_dense_replace=1, routed_scaling_factor=1.7,
                    n_group=3, topk_group=2, norm_topk_prob=True, sliding_window=7, max_window_layers=2,
                    pad_token_id=None)
    if a["type"] == "glm4_moe":
        return made(**keys, head_dim=a["K"] or 16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
                    moe_intermediate_size=a["F"] // 2, first_k_dense_replace=1, routed_scaling_factor=1.7,
                    n_group=3, topk_group=2, attention_bias=True, use_qk_norm=True, pad_token_id=None)
    if a["type"] == "deepseek_v3":  # K: of the queries' latent
        return made(**keys | {"num_key_value_heads": a["H"]}, n_routed_experts=6, num_experts_per_tok=2,
                    n_shared_experts=2, moe_intermediate_size=a["F"] // 2, first_k_dense_replace=1, n_group=3,
                    topk_group=2, q_lora_rank=a["K"] or None, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6,
                    v_head_dim=9, pad_token_id=None)
    if a["type"] == "minimax_m2":  # half of a head rotates
        return made(**keys, head_dim=a["K"] or 16, num_local_experts=6, num_experts_per_tok=2,
                    rotary_dim=(a["K"] or 16) // 2, attn_type_list=[1] * a["L"], num_mtp_modules=3,
                    use_routing_bias=True, scoring_func="sigmoid", pad_token_id=None)
    if a["type"] == "gpt_oss":
        return made(**keys, head_dim=a["K"] or 16, num_local_experts=6, num_experts_per_tok=2, sliding_window=7,
                    pad_token_id=None)
    if a["type"] == "ernie4_5_moe":
        return made(**keys, head_dim=a["K"] or 16, moe_num_experts=6, moe_k=2, moe_num_shared_experts=1,
                    moe_intermediate_size=a["F"] // 2, moe_layer_start_index=1, num_nextn_predict_layers=1,
                    pad_token_id=None)
    if a["type"].startswith(("qwen", "seed", "ernie", "ministral")):
        return made(**keys, rms_norm_eps=1e-6, head_dim=a["K"] or 16, pad_token_id=None)
    if a["type"].startswith(("olmo", "smollm")):
        return made(**keys, **more, pad_token_id=None)
    more = {"mistral": {"sliding_window": None, "head_dim": a["K"] or None},
            "granite": {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.1,
                        "logits_scaling": 3.0, "pad_token_id": None},
            "mixtral": {"sliding_window": None, "num_local_experts": 6, "num_experts_per_tok": 2},
            "arcee": {"pad_token_id": None}}.get(a["type"], {})
    return made(**keys, **more, rms_norm_eps=1e-5)
