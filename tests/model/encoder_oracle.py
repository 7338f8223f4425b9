# SPDX-License-Identifier: Apache-2.0
"""Runs ModernBertForMaskedLM of transformers on weights written by the test; writes its logits, loss and gradients.

Usage: encoder_oracle.py FOLDER... In each: case.json, <parameter name>.bin, tokens.bin and labels.bin, as for
llama_oracle.py, which says what is written. The first layer sees all positions, the second a window.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers


def views(model, L, F):
    """Our name -> a view of transformers' parameter, or of some of its rows."""
    p = dict(model.named_parameters())
    D = model.config.hidden_size
    found = {"tok_embeddings.weight": p["model.embeddings.tok_embeddings.weight"],
             "embedding_norm.weight": p["model.embeddings.norm.weight"], "norm.weight": p["model.final_norm.weight"],
             "head.dense.weight": p["head.dense.weight"], "head.norm.weight": p["head.norm.weight"],
             "decoder.bias": p["decoder.bias"]}
    if "decoder.weight" in p:
        found["output.weight"] = p["decoder.weight"]
    for i in range(L):
        ours, theirs = f"layers.{i}.", f"model.layers.{i}."
        for j, w in enumerate(("wq", "wk", "wv")):
            found[f"{ours}attention.{w}.weight"] = (p[theirs + "attn.Wqkv.weight"], slice(j * D, (j + 1) * D))
        found[ours + "attention.wo.weight"] = p[theirs + "attn.Wo.weight"]
        if i > 0:
            found[ours + "attention_norm.weight"] = p[theirs + "attn_norm.weight"]
        found[ours + "ffn_norm.weight"] = p[theirs + "mlp_norm.weight"]
        for j, w in enumerate(("w1", "w3")):
            found[f"{ours}feed_forward.{w}.weight"] = (p[theirs + "mlp.Wi.weight"], slice(j * F, (j + 1) * F))
        found[ours + "feed_forward.w2.weight"] = p[theirs + "mlp.Wo.weight"]
    found = {name: view if isinstance(view, tuple) else (view, slice(None)) for name, view in found.items()}
    assert sum(view[rows].numel() for view, rows in found.values()) == sum(w.numel() for w in p.values())
    return found


def run(folder):
    case = json.loads((folder / "case.json").read_text())
    D, L, H, F, V, B, S = (case[k] for k in "DLHFVBS")

    def load(name, dtype):
        return torch.from_numpy(np.fromfile(folder / name, dtype=dtype))

    def save(name, tensor):
        tensor.detach().to(torch.float32).contiguous().numpy().tofile(folder / name)

    window = case["window"]
    rope = {"full_attention": {"rope_type": "default", "rope_theta": float(case["rope_theta"])},
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}
    config = transformers.ModernBertConfig(
        hidden_size=D, num_hidden_layers=L, num_attention_heads=H, intermediate_size=F, vocab_size=V,
        norm_eps=case["norm_eps"], max_position_embeddings=64, tie_word_embeddings=case["tied"], pad_token_id=None,
        layer_types=["full_attention", "sliding_attention" if window else "full_attention"], rope_parameters=rope,
        local_attention=window or 128, attn_implementation="eager")
    model = transformers.ModernBertForMaskedLM(config).float().train()
    found = views(model, L, F)
    with torch.no_grad():
        for ours, (parameter, rows) in found.items():
            parameter[rows] = load(ours + ".bin", np.float32).view_as(parameter[rows])
    labels = load("labels.bin", np.int32).long()
    logits = model(input_ids=load("tokens.bin", np.int32).long().view(B, S)).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels, ignore_index=-100)
    loss.backward()
    save("logits.bin", logits)
    save("loss.bin", loss.reshape(1))
    for ours, (parameter, rows) in found.items():
        save(ours + ".grad.bin", parameter.grad[rows])


for argument in sys.argv[1:]:
    run(pathlib.Path(argument))
