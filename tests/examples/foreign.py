# SPDX-License-Identifier: Apache-2.0
"""What other programs find in the folders that an example made: the loss of a text, by weights in their files.

foreign.py KIND FOLDER TOKENS WINDOW HEADS    KIND: neox, nxd, dcp, hf: windows of WINDOW tokens predict the next ones,
                                              each token once, as `hearth eval` measures; or dcp-masked: hidden tokens
foreign.py rows FOLDER    what Hugging Face's load_from_disk finds: columns, rows and their lengths, as JSON

TOKENS is a .bin of uint16, or a folder of recordings. For hf, transformers computes; for the others this file joins the
ranks' parts and computes the model itself.
"""
import glob
import json
import os
import re
import sys

import numpy
import torch
from torch.nn import functional

EPS = 1e-5
BOS = 255  # of recordings
HIDDEN, MASK = 0.3, 2


def join(parts, dim):
    return torch.cat([part.float() for part in parts], dim)


def neox_layers(folder):
    """GPT-NeoX's layer_NN-model_RR-model_states.pt of Llemma's branch: a head's query, key and value are together."""
    layers = {}
    for path in sorted(glob.glob(folder + "/layer_*-model_*-model_states.pt")):
        number = int(re.search(r"layer_(\d+)-", path)[1])
        layers.setdefault(number, []).append(torch.load(path, weights_only=True))
    return layers


def neox(folder, heads):
    layers = neox_layers(folder)
    first, last = min(layers), max(layers)
    model = {"embedding": join([r["word_embeddings.weight"] for r in layers[first]], 0),
             "head": join([r["final_linear.weight"] for r in layers[last]], 0), "rms": "norm plus eps"}
    norm, = [r for number, r in layers.items() if "norm.scale" in r[0]]
    model["norm"] = norm[0]["norm.scale"].float()
    blocks = []
    for number in sorted(layers):
        ranks = layers[number]
        if "attention.query_key_value.weight" not in ranks[0]:
            continue
        qkv = join([r["attention.query_key_value.weight"] for r in ranks], 0)
        q, k, v = qkv.view(heads, 3, -1, qkv.shape[1]).unbind(1)
        q, k, v = (part.reshape(-1, qkv.shape[1]) for part in (q, k, v))
        blocks.append({"q": q, "k": k, "v": v, "o": join([r["attention.dense.weight"] for r in ranks], 1),
                       "gate": join([r["mlp.w1.weight"] for r in ranks], 0),
                       "up": join([r["mlp.w3.weight"] for r in ranks], 0),
                       "down": join([r["mlp.w2.weight"] for r in ranks], 1),
                       "norm_1": ranks[0]["input_layernorm.scale"].float(),
                       "norm_2": ranks[0]["post_attention_layernorm.scale"].float()})
    model["blocks"] = blocks
    return model


def nxd(folder, _):
    """NxD's model/dp_rank_00_..._tp_rank_TT_pp_rank_00.pt: names of Hugging Face, gate and up of a rank joined."""
    ranks = [torch.load(path, weights_only=True) for path in sorted(glob.glob(folder + "/model/*tp_rank_*.pt"))]
    ranks = [rank.get("model", rank) for rank in ranks]

    def rows(name, dim=0):
        return join([rank[name] for rank in ranks], dim)

    model = {"embedding": rows("model.embed_tokens.weight"), "head": rows("lm_head.weight"),
             "norm": ranks[0]["model.norm.weight"].float(), "rms": "root of mean plus eps", "blocks": []}
    for i in range(sum(name.endswith("input_layernorm.weight") for name in ranks[0])):
        at = f"model.layers.{i}."
        halves = [rank[at + "mlp.gate_up_proj.weight"].chunk(2) for rank in ranks]
        model["blocks"].append({"q": rows(at + "self_attn.q_proj.weight"), "k": rows(at + "self_attn.k_proj.weight"),
                                "v": rows(at + "self_attn.v_proj.weight"), "o": rows(at + "self_attn.o_proj.weight", 1),
                                "gate": join([half[0] for half in halves], 0),
                                "up": join([half[1] for half in halves], 0),
                                "down": rows(at + "mlp.down_proj.weight", 1),
                                "norm_1": ranks[0][at + "input_layernorm.weight"].float(),
                                "norm_2": ranks[0][at + "post_attention_layernorm.weight"].float()})
    return model


def dcp(folder, _):
    """A folder of torch.distributed.checkpoint with torchtitan's names of 2025, whose pairs are neighbours."""
    from torch.distributed import checkpoint
    known = checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata
    weights = {name: torch.zeros(m.size, dtype=m.properties.dtype) for name, m in known.items()
               if not name.startswith(("optimizer.", "train_state.", "lr_scheduler."))}
    checkpoint.load(weights, checkpoint_id=folder)
    model = {"embedding": weights["tok_embeddings.weight"], "head": weights["output.weight"],
             "norm": weights["norm.weight"], "rms": "root of mean plus eps", "pairs": "neighbours", "blocks": []}
    for i in range(sum(name.endswith("attention_norm.weight") for name in weights)):
        names = {"q": "attention.wq", "k": "attention.wk", "v": "attention.wv", "o": "attention.wo",
                 "gate": "feed_forward.w1", "up": "feed_forward.w3", "down": "feed_forward.w2",
                 "norm_1": "attention_norm", "norm_2": "ffn_norm"}
        model["blocks"].append({ours: weights[f"layers.{i}.{theirs}.weight"] for ours, theirs in names.items()})
    return model


def rms_norm(x, weight, how):
    if how == "norm plus eps":  # Llemma's branch adds eps to the root
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + EPS) * weight
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def rotate(x, base, neighbours):  # [B, H, S, K]
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[2]).float(), base ** (-torch.arange(half).float() / half))
    cos, sin = angles.cos(), angles.sin()
    a, b = (x[..., 0::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    pair = a * cos - b * sin, b * cos + a * sin
    return torch.stack(pair, -1).flatten(-2) if neighbours else torch.cat(pair, -1)


def logits(model, ids, heads, causal=True):
    neighbours = model.get("pairs") == "neighbours"
    base = 500000.0 if neighbours else 10000.0  # of rotary embedding: the twins' run files say it
    x = model["embedding"][ids]
    B, S, D = x.shape
    for w in model["blocks"]:
        h = rms_norm(x, w["norm_1"], model["rms"])
        q, k, v = ((h @ w[name].T).view(B, S, -1, D // heads).transpose(1, 2) for name in "qkv")
        k, v = (t.repeat_interleave(heads // t.shape[1], 1) for t in (k, v))
        q, k = rotate(q, base, neighbours), rotate(k, base, neighbours)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + mixed.transpose(1, 2).reshape(B, S, D) @ w["o"].T
        h = rms_norm(x, w["norm_2"], model["rms"])
        x = x + (functional.silu(h @ w["gate"].T) * (h @ w["up"].T)) @ w["down"].T
    return rms_norm(x, model["norm"], model["rms"]) @ model["head"].T


def rows(folder):
    from datasets import load_from_disk
    found = load_from_disk(folder)
    lengths = sorted({len(row) for row in found["input_ids"]})
    print(json.dumps({"columns": found.column_names, "rows": len(found), "lengths": lengths}))


def read_tokens(path):
    if not os.path.isdir(path):
        return torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint16).astype(numpy.int64))
    stream = []  # of recordings: before each time bin a BOS, then a count of each neuron
    for name in sorted(glob.glob(path + "/*.npy")):
        counts = numpy.load(name).astype(numpy.int64)
        stream.append(numpy.vstack([numpy.full((1, counts.shape[1]), BOS), counts]).T.reshape(-1))
    return torch.from_numpy(numpy.concatenate(stream))


def next_tokens(compute, stream, window):
    for start in range(0, len(stream) - 1, window):
        ids = stream[start:start + window + 1]
        yield functional.cross_entropy(compute(ids[None, :-1])[0].float(), ids[1:], reduction="none")


def hidden_tokens(compute, stream, window):
    torch.manual_seed(0)
    for start in range(0, len(stream), window):
        ids = stream[start:start + window]
        hidden = (torch.rand(len(ids)) < HIDDEN) & (ids > MASK)  # special tokens come first, the mask last of them
        seen = torch.where(hidden, MASK, ids)
        yield functional.cross_entropy(compute(seen[None])[0].float()[hidden], ids[hidden], reduction="none")


def loss(kind, folder, tokens, window, heads):
    torch.set_num_threads(1)  # small products: more threads wait for each other
    window, heads, stream = int(window), int(heads), read_tokens(tokens)
    if kind == "hf":
        from transformers import AutoModelForCausalLM
        hf = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
    else:
        model = {"neox": neox, "nxd": nxd, "dcp": dcp}[kind.split("-")[0]](folder, heads)

    def compute(ids):
        return hf(ids).logits if kind == "hf" else logits(model, ids, heads, kind != "dcp-masked")

    with torch.no_grad():
        losses = torch.cat(list((hidden_tokens if kind == "dcp-masked" else next_tokens)(compute, stream, window)))
    print(losses.double().mean().item())


if sys.argv[1] == "rows":
    rows(sys.argv[2])
else:
    loss(*sys.argv[1:])
