# SPDX-License-Identifier: Apache-2.0
"""Trains the same Llama in PyTorch, from a checkpoint of ours and on the same batches, and prints one loss a line.

usage: llama_curve.py CHECKPOINT BATCHES SPEC
  CHECKPOINT  a step-... folder, read by torch.distributed.checkpoint
  BATCHES     int32: for each step tokens [B, S], then labels [B, S]
  SPEC        JSON: B S H G norm_eps rope_theta tied beta1 beta2 eps weight_decay max_norm, lr (a list, one a step)
"""

import json
import sys
import warnings

import numpy
import torch
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F


def load(path):
    """Every model tensor of the checkpoint. The shapes come from torch's own metadata reader, not from us."""
    metadata = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    state = {
        name: torch.empty(m.size, dtype=m.properties.dtype)
        for name, m in metadata.items()
        if hasattr(m, "size") and not name.startswith("optimizer.")
    }
    dcp.load(state, checkpoint_id=path, no_dist=True)
    return {name: tensor.requires_grad_() for name, tensor in state.items() if tensor.is_floating_point()}


def rotate(x_BSNK, theta):
    """RoPE in Meta's form: neighbouring pairs are complex numbers."""
    S, K = x_BSNK.shape[1], x_BSNK.shape[3]
    frequency = theta ** (-torch.arange(0, K, 2, dtype=torch.float64) / K)
    angle = torch.outer(torch.arange(S, dtype=torch.float64), frequency)
    turn = torch.polar(torch.ones_like(angle),
                       angle).to(torch.complex64 if x_BSNK.dtype == torch.float32 else torch.complex128)
    pairs = torch.view_as_complex(x_BSNK.reshape(*x_BSNK.shape[:-1], K // 2, 2))
    return torch.view_as_real(pairs * turn[None, :, None, :]).flatten(-2)


def forward(p, spec, tokens):
    B, S = tokens.shape
    H, G = spec["H"], spec["G"]

    def norm(x, weight):
        return F.rms_norm(x, (x.shape[-1],), weight, spec["norm_eps"])

    x = F.embedding(tokens, p["tok_embeddings.weight"])
    layer = 0
    while f"layers.{layer}.attention.wq.weight" in p:
        n = f"layers.{layer}."
        h = norm(x, p[n + "attention_norm.weight"])
        q = rotate(F.linear(h, p[n + "attention.wq.weight"]).view(B, S, H, -1), spec["rope_theta"])
        k = rotate(F.linear(h, p[n + "attention.wk.weight"]).view(B, S, G, -1), spec["rope_theta"])
        v = F.linear(h, p[n + "attention.wv.weight"]).view(B, S, G, -1)
        k, v = (t.repeat_interleave(H // G, dim=2) for t in (k, v))
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + F.linear(a.transpose(1, 2).flatten(2), p[n + "attention.wo.weight"])
        h = norm(x, p[n + "ffn_norm.weight"])
        gate = F.silu(F.linear(h, p[n + "feed_forward.w1.weight"])) * F.linear(h, p[n + "feed_forward.w3.weight"])
        x = x + F.linear(gate, p[n + "feed_forward.w2.weight"])
        layer += 1
    assert layer > 0
    output = p["tok_embeddings.weight"] if spec["tied"] else p["output.weight"]
    return F.linear(norm(x, p["norm.weight"]), output)


def main():
    checkpoint, batches_path, spec_path = sys.argv[1:]
    with open(spec_path) as f:
        spec = json.load(f)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torch warns that one process reads the checkpoint alone
    p = load(checkpoint)
    batches = torch.from_numpy(numpy.fromfile(batches_path, dtype=numpy.int32)).view(len(spec["lr"]), 2, spec["B"],
                                                                                     spec["S"])
    groups = [
        {"params": [t for t in p.values() if t.dim() >= 2], "weight_decay": spec["weight_decay"]},
        {"params": [t for t in p.values() if t.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(spec["beta1"], spec["beta2"]), eps=spec["eps"])
    for lr, (tokens, labels) in zip(spec["lr"], batches):
        for group in optimizer.param_groups:
            group["lr"] = lr
        logits = forward(p, spec, tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten().long(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(p.values()), spec["max_norm"])
        optimizer.step()
        print(f"{loss.item():.17g}", flush=True)


main()
