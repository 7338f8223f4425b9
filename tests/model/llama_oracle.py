# SPDX-License-Identifier: Apache-2.0
"""Runs a model of transformers on weights written by the test; writes its logits, loss and gradients.

Usage: llama_oracle.py FOLDER... In each: case.json: shape and sizes, and the model's "family". <parameter name>.bin:
float32, row-major, as on disk. tokens.bin, labels.bin: int32 [B, S], labels already shifted, -100 where not counted.
case.json's "documents": the places in [B*S] where documents start; attention keeps to them. Empty: rows are documents.
case.json's "R": the elements of a head that rotate. "rope": rope_parameters of the class, if they are not plain.
Writes logits.bin [B, S, V], loss.bin [1] (mean over counted labels) and <parameter name>.grad.bin.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers


def of_heads(w, heads, R, split):  # the first R rows of each head in another order
    rows = w.reshape(heads, w.shape[0] // heads, -1).clone()
    rows[:, :R] = rows[:, :R].reshape(heads, *split, -1).transpose(1, 2).reshape(heads, R, -1)
    return rows.reshape(w.shape)


def halves(w, heads, R):  # interleaved pairs -> the two halves that Hugging Face rotates
    return of_heads(w, heads, R, (R // 2, 2))


def pairs(w, heads, R):  # and back
    return of_heads(w, heads, R, (2, R // 2))


def names_of(L, H, G, tied, halves, family, qkv_bias):
    """Our name -> (Hugging Face's name, heads whose rotary pairs differ in order or 0)."""
    if family in ("ernie4_5", "glm4"):  # neighbours are pairs, as in its cases
        assert not halves
        halves = True
    names = {"tok_embeddings.weight": ("model.embed_tokens.weight", 0), "norm.weight": ("model.norm.weight", 0)}
    if not tied:
        names["output.weight"] = ("lm_head.weight", 0)
    for i in range(L):
        ours, theirs = f"layers.{i}.", f"model.layers.{i}."
        if family in ("olmo2", "olmo3", "exaone4", "gemma3_text"):
            names[ours + "post_attention_norm.weight"] = (theirs + "post_attention_layernorm.weight", 0)
            names[ours + "post_ffn_norm.weight"] = (theirs + "post_feedforward_layernorm.weight", 0)
        if family == "glm4":
            names[ours + "post_attention_norm.weight"] = (theirs + "post_self_attn_layernorm.weight", 0)
            names[ours + "post_ffn_norm.weight"] = (theirs + "post_mlp_layernorm.weight", 0)
        if family == "gemma3_text":
            names[ours + "attention_norm.weight"] = (theirs + "input_layernorm.weight", 0)
            names[ours + "ffn_norm.weight"] = (theirs + "pre_feedforward_layernorm.weight", 0)
        elif family not in ("olmo2", "olmo3", "exaone4"):
            names[ours + "attention_norm.weight"] = (theirs + "input_layernorm.weight", 0)
            names[ours + "ffn_norm.weight"] = (theirs + "post_attention_layernorm.weight", 0)
        for a, b, heads in (("wq", "q_proj", 0 if halves else H), ("wk", "k_proj", 0 if halves else G),
                            ("wv", "v_proj", 0), ("wo", "o_proj", 0)):
            names[f"{ours}attention.{a}.weight"] = (f"{theirs}self_attn.{b}.weight", heads)
            if family == "llama_biases" or (qkv_bias and a != "wo"):
                names[f"{ours}attention.{a}.bias"] = (f"{theirs}self_attn.{b}.bias", heads)
        if family in ("qwen3", "exaone4", "gemma3_text"):
            for norm in ("q_norm", "k_norm"):
                names[f"{ours}attention.{norm}.weight"] = (f"{theirs}self_attn.{norm}.weight", 0 if halves else 1)
        if family in ("olmo2", "olmo3"):  # all heads are one row
            for norm, heads in (("q_norm", H), ("k_norm", G)):
                names[f"{ours}attention.{norm}.weight"] = (f"{theirs}self_attn.{norm}.weight", 0 if halves else heads)
        gated = (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj"))
        for a, b in (("w1", "up_proj"), ("w2", "down_proj")) if family == "arcee" else gated:
            names[f"{ours}feed_forward.{a}.weight"] = (f"{theirs}mlp.{b}.weight", 0)
            if family == "llama_biases":
                names[f"{ours}feed_forward.{a}.bias"] = (f"{theirs}mlp.{b}.bias", 0)
    return names


def parts_of(parameters, family, H, G, K, F):
    """Name -> rows of a parameter. Phi-3's and GLM-4's matrices have rows of several of ours."""
    parts = {}
    for name, parameter in parameters.items():
        joined = []
        if family == "phi3" and name.endswith("qkv_proj.weight"):
            joined = [("q_proj", H * K), ("k_proj", G * K), ("v_proj", G * K)]
        if name.endswith("gate_up_proj.weight"):
            joined = [("gate_proj", F), ("up_proj", F)]
        first = 0
        for part, rows in joined or [("", parameter.shape[0])]:
            alone = name.replace("qkv_proj", part).replace("gate_up_proj", part) if joined else name
            parts[alone] = (parameter, slice(first, first + rows))
            first += rows
        assert first == parameter.shape[0]
    return parts


def run(folder):
    case = json.loads((folder / "case.json").read_text())
    D, L, H, G, F, V, B, S = (case[k] for k in "DLHGFVBS")
    K, family = case["K"], {"gemma3": "gemma3_text"}.get(case["family"], case["family"])

    def load(name, dtype, shape):
        return torch.from_numpy(np.fromfile(folder / name, dtype=dtype).reshape(shape))

    def save(name, tensor):
        tensor.detach().to(torch.float32).contiguous().numpy().tofile(folder / name)

    # Our rotary pairs are neighbours, unless the case says that they are Hugging Face's.
    scaling = None
    if case["scaling_factor"] != 1:
        scaling = {"rope_type": "llama3", "factor": float(case["scaling_factor"]), "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": case["original_seq_len"]}
    name = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3",
            "olmo2": "Olmo2", "olmo3": "Olmo3", "phi3": "Phi3", "ministral3": "Ministral3",
            "smollm3": "SmolLM3", "seed_oss": "SeedOss", "ernie4_5": "Ernie4_5",
            "gemma": "Gemma", "glm4": "Glm4", "granite": "Granite", "arcee": "Arcee", "exaone4": "Exaone4",
            "gemma3_text": "Gemma3Text", "llama_biases": "Llama"}[family]
    embeddings, branches, scores, logits = case["multipliers"]
    more = {"llama": {"attention_bias": False, "mlp_bias": False}, "qwen2": {},
            "mistral": {"head_dim": K, "sliding_window": None},
            "qwen3": {"head_dim": K, "attention_bias": False},
            "seed_oss": {"head_dim": K, "attention_dropout": 0.0, "residual_dropout": 0.0, "pad_token_id": None},
            "ernie4_5": {"head_dim": K, "pad_token_id": None},
            "smollm3": {"no_rope_layer_interval": 2, "pad_token_id": None},
            "granite": {"embedding_multiplier": float(embeddings), "residual_multiplier": float(branches),
                        "attention_multiplier": float(scores), "logits_scaling": float(logits), "pad_token_id": None},
            "arcee": {"head_dim": K, "pad_token_id": None},
            "exaone4": {"head_dim": K, "pad_token_id": None, "sliding_window": None,
                        "layer_types": ["full_attention"] * L},
            "gemma": {"head_dim": K, "pad_token_id": None},
            "glm4": {"head_dim": K, "pad_token_id": None, "attention_bias": case["qkv_bias"]},
            "gemma3_text": {"head_dim": K, "query_pre_attn_scalar": round(scores**-2) if scores else 0,
                            "layer_types": ["full_attention"] * L, "hidden_activation": "gelu_pytorch_tanh",
                            "pad_token_id": None},
            "llama_biases": {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
            "phi3": {"pad_token_id": None, "original_max_position_embeddings": case["original_seq_len"]},
            "ministral3": {"head_dim": K, "pad_token_id": None, "sliding_window": None},
            "olmo2": {"pad_token_id": None}, "olmo3": {"pad_token_id": None}}[family]
    window = case["window"]
    if window:
        more["sliding_window"] = window
        if family.startswith("qwen"):
            more["use_sliding_window"] = True
        if family != "mistral":
            more["layer_types"] = ["sliding_attention", "full_attention"]
    rope = {"rope_theta": case["rope_theta"], "rope_scaling": case["rope"] or scaling}
    if family in ("olmo3", "gemma3_text"):  # each kind of layer has a rotation
        each = {"rope_type": "default", "rope_theta": float(case["rope_theta"])}
        rope = {"rope_parameters": case["rope"] or {"full_attention": each, "sliding_attention": dict(each)}}
    config = getattr(transformers, name + "Config")(
        hidden_size=D, num_hidden_layers=L, num_attention_heads=H, num_key_value_heads=G, intermediate_size=F,
        vocab_size=V, rms_norm_eps=case["norm_eps"], max_position_embeddings=max(S, 16), **rope,
        tie_word_embeddings=case["tied"], attn_implementation="eager", **more)
    name = {"Gemma3Text": "Gemma3"}.get(name, name)
    model = getattr(transformers, name + "ForCausalLM")(config).float().train()
    names, R = names_of(L, H, G, case["tied"], case["halves"], family, case["qkv_bias"]), case["R"]
    parts = parts_of(dict(model.named_parameters()), family, H, G, K, F)
    assert set(parts) == {theirs for theirs, _ in names.values()}, set(parts)
    with torch.no_grad():
        for ours, (theirs, heads) in names.items():
            parameter, rows = parts[theirs]
            w = load(ours + ".bin", np.float32, tuple(parameter[rows].shape))
            parameter[rows] = halves(w, heads, R) if heads else w

    tokens = load("tokens.bin", np.int32, (B, S)).long()
    labels = load("labels.bin", np.int32, (B, S)).long()
    starts = np.zeros(B * S, dtype=np.int64)
    starts[case["documents"] or np.arange(0, B * S, S)] = 1
    document = torch.from_numpy(np.cumsum(starts).reshape(B, S))
    first = torch.from_numpy(np.maximum.accumulate(np.where(starts, np.arange(B * S), 0)).reshape(B, S))
    sees = document[:, :, None] == document[:, None, :]
    if case["causal"]:
        sees = sees & torch.ones(S, S, dtype=torch.bool).tril()
    mask = None if window else torch.zeros(B, 1, S, S).masked_fill(~sees[:, None], torch.finfo(torch.float32).min)
    logits = model(input_ids=tokens, attention_mask=mask, position_ids=torch.arange(B * S).view(B, S) - first).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    loss.backward()
    save("logits.bin", logits)
    save("loss.bin", loss.reshape(1))
    for ours, (theirs, heads) in names.items():
        parameter, rows = parts[theirs]
        g = parameter.grad[rows]
        save(ours + ".grad.bin", pairs(g, heads, R) if heads else g)


for argument in sys.argv[1:]:
    run(pathlib.Path(argument))
