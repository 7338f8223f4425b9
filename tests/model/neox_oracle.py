# SPDX-License-Identifier: Apache-2.0
"""GPT-NeoX's Llama path, its arithmetic and its layout of weights restated in PyTorch; files as llama_oracle.py's.

Two dialects (case.json's "dialect"):
- "llemma": the fork that Llemma was trained with. RMSNorm adds eps to the root mean square. query_key_value holds, for
  each query head, its q and an equal share of the rows of the k and v that it uses; w1, w3, w2 are apart.
- "main": GPT-NeoX since 2025. RMSNorm adds eps to the mean square. query_key_value is [Q | K | V]; linear1 is
  [up | gate].
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def rotary(x, base):  # [B, S, heads, K]
    inverse = 1.0 / (base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]))
    angles = torch.outer(torch.arange(x.shape[1]).float(), inverse)
    angles = torch.cat((angles, angles), dim=-1)[None, :, None, :]
    return x * angles.cos() + rotate_half(x) * angles.sin()


def norm(x, scale, eps, dialect):
    if dialect == "llemma":
        return x / (x.norm(2, dim=-1, keepdim=True) * x.shape[-1] ** -0.5 + eps) * scale
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * scale


def split_qkv(y, H, G, K, dialect):
    B, S, _ = y.shape
    if dialect == "main":
        q, k, v = y.split([H * K, G * K, G * K], dim=-1)
        return q.view(B, S, H, K), k.view(B, S, G, K), v.view(B, S, G, K)
    share = K * G // H
    q, k, v = y.view(B, S, H, K + 2 * share).split([K, share, share], dim=-1)
    return q, k.reshape(B, S, G, K), v.reshape(B, S, G, K)


def pack_qkv(q, k, v, H, G, K, dialect):
    if dialect == "main":
        return torch.cat((q, k, v))
    D, share = q.shape[1], K * G // H
    return torch.cat((q.view(H, K, D), k.view(H, share, D), v.view(H, share, D)), dim=1).reshape(-1, D)


def layer(x, p, case):
    H, G, K, eps, dialect = case["H"], case["G"], case["D"] // case["H"], case["norm_eps"], case["dialect"]
    B, S, D = x.shape
    y = norm(x, p["attention_norm"], eps, dialect)
    q, k, v = split_qkv(y @ pack_qkv(p["wq"], p["wk"], p["wv"], H, G, K, dialect).t(), H, G, K, dialect)
    q, k = rotary(q, case["rope_theta"]), rotary(k, case["rope_theta"])
    k, v = (t.repeat_interleave(H // G, dim=2).transpose(1, 2) for t in (k, v))
    scores = q.transpose(1, 2) @ k.transpose(2, 3) / math.sqrt(K)
    scores = scores.masked_fill(torch.ones(S, S, dtype=torch.bool).triu(1), -10000.0)
    x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, S, H * K) @ p["wo"].t()
    y = norm(x, p["ffn_norm"], eps, dialect)
    if dialect == "main":
        up, gate = (y @ torch.cat((p["w3"], p["w1"])).t()).chunk(2, dim=-1)
        return x + (torch.nn.functional.silu(gate) * up) @ p["w2"].t()
    return x + (torch.nn.functional.silu(y @ p["w1"].t()) * (y @ p["w3"].t())) @ p["w2"].t()


def run(folder):
    case = json.loads((folder / "case.json").read_text())
    D, L, V, B, S = (case[k] for k in "DLVBS")
    weights = {}
    for path in folder.glob("*.weight.bin"):
        name = path.name.removesuffix(".bin")
        data = torch.from_numpy(np.fromfile(path, dtype=np.float32))
        width = case["F"] if name.endswith("w2.weight") else D
        weights[name] = (data if "norm" in name else data.view(-1, width)).requires_grad_()
    tokens, labels = (torch.from_numpy(np.fromfile(folder / f"{n}.bin", dtype=np.int32).reshape(B, S)).long()
                      for n in ("tokens", "labels"))
    x = weights["tok_embeddings.weight"][tokens]
    for i in range(L):
        ours = {n.split(".")[-2]: w for n, w in weights.items() if n.startswith(f"layers.{i}.")}
        x = layer(x, ours, case)
    logits = norm(x, weights["norm.weight"], case["norm_eps"], case["dialect"]) @ weights["output.weight"].t()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    loss.backward()
    for name, tensor in {"logits": logits, "loss": loss.reshape(1),
                         **{f"{n}.grad": w.grad for n, w in weights.items()}}.items():
        tensor.detach().contiguous().numpy().tofile(folder / f"{name}.bin")


for argument in sys.argv[1:]:
    run(pathlib.Path(argument))
