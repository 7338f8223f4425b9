# SPDX-License-Identifier: Apache-2.0
"""class_defaults.py ARCHITECTURE,SWITCHED,FIELD,...[ ...]: what classes of transformers take where config.json lacks a
field, for a model with 6 heads of 16. The last figure n of each: every n-th layer has no window; 0: all are alike.
SWITCHED is 1 for a class whose window is switched."""

import json
import sys

import transformers


def defaults_of(architecture, switched, *fields):
    window = {"use_sliding_window": True} if switched == "1" else {}
    made = getattr(transformers, architecture).config_class(num_attention_heads=6, hidden_size=96, **window)
    types = getattr(made, "layer_types", None) or []
    places = [i for i, kind in enumerate(types) if kind == "full_attention"]
    full = places[1] - places[0] if "sliding_attention" in types and len(places) > 1 else 0
    rope = made.rope_parameters.get("full_attention", made.rope_parameters)
    eps = getattr(made, "rms_norm_eps", getattr(made, "norm_eps", 1e-6))
    count = "n_routed_experts" if hasattr(made, "n_routed_experts") else "num_experts"
    experts = [getattr(made, name, None) or 0 for name in (count, "num_experts_per_tok", "moe_intermediate_size")]
    width = 16 if hasattr(made, "kv_lora_rank") else getattr(made, "head_dim", None) or 16
    values = [getattr(made, field) for field in fields]
    more = [rope.get("partial_rotary_factor", 1.0)] + [0 if value is None else value for value in values]
    return [made.model_type, made.max_position_embeddings, getattr(made, "num_key_value_heads", 6),
            width, getattr(made, "sliding_window", None) or 0, eps, experts, more,
            rope["rope_theta"], made.tie_word_embeddings, getattr(made, "no_rope_layer_interval", 0),
            0 if switched == "1" else full, made.vocab_size]


print(json.dumps([defaults_of(*words.split(",")) for words in sys.argv[1:]]))
