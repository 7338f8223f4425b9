# SPDX-License-Identifier: Apache-2.0
"""LLaDA's loss, bound and sampling in PyTorch, for a Llama without a causal mask, with the weights of a checkpoint.

usage: diffusion_reference.py loss CHECKPOINT SPEC STEP1
           the loss of the spec's batches, and the gradient compared with the first moments of checkpoint STEP1
       diffusion_reference.py generate CHECKPOINT SPEC
           the tokens after the spec's prompt, at temperature 0
       diffusion_reference.py choices CHECKPOINT SPEC
           of each of the spec's texts: the mean of the bound over all choices of hidden tokens
  CHECKPOINT  a step-... folder of float64, read by torch.distributed.checkpoint; or one with the files of LLaDA's code
  SPEC        JSON: H G norm_eps rope_theta mask_id shift, and what a command reads
Results are JSON. Sources: ML-GSAI/LLaDA's GUIDELINES.md, generate.py and get_log_likelihood.py, rewritten; for `shift`
Dream's shift of the logits.
"""

import itertools
import json
import math
import os
import sys
import warnings

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
warnings.simplefilter("ignore")  # torch warns that one process reads the checkpoint alone


def load_llada(folder):
    """The weights under Hearth's names, and the fields of config.json that LLaDA's code computes with."""
    import safetensors.torch

    ours = {"attn_norm": "attention_norm", "q_proj": "attention.wq", "k_proj": "attention.wk",
            "v_proj": "attention.wv", "attn_out": "attention.wo", "ff_norm": "ffn_norm", "ff_proj": "feed_forward.w1",
            "up_proj": "feed_forward.w3", "ff_out": "feed_forward.w2"}
    w = {}
    for name, tensor in safetensors.torch.load_file(os.path.join(folder, "model.safetensors")).items():
        parts = name.removeprefix("model.transformer.").removesuffix(".weight").split(".")
        layer = f"layers.{parts[1]}.{ours[parts[2]]}" if parts[0] == "blocks" else {
            "wte": "tok_embeddings", "ln_f": "norm", "ff_out": "output"}[parts[0]]
        w[layer + ".weight"] = tensor.double()
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    assert [config[n] for n in ("block_type", "layer_norm_type", "activation_type")] == ["llama", "rms", "silu"]
    assert config["rope"] and not config["include_bias"] and not config["weight_tying"]
    assert config["d_model"] == w["norm.weight"].shape[0] and config["embedding_size"] == w["output.weight"].shape[0]
    return w, {"H": config["n_heads"], "G": config["n_kv_heads"], "norm_eps": config["rms_norm_eps"],
               "rope_theta": config["rope_theta"], "mask_id": config["mask_token_id"], "halves": True}


def load(folder, moments=False):
    import torch
    import torch.distributed.checkpoint as dcp

    metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    tensors = {n: torch.empty(m.size, dtype=m.properties.dtype) for n, m in metadata.items()
               if hasattr(m, "size") and n.endswith(".exp_avg" if moments else ".weight")
               and n.startswith("optimizer.") == moments}
    dcp.load(tensors, checkpoint_id=folder, no_dist=True)
    return tensors


def rotated(x, theta, halves):
    """Neighbours are pairs, or elements of both halves (LLaDA's code). x: [B, S, heads, K]."""
    import torch

    K = x.shape[-1]
    if halves:
        x = x.unflatten(-1, (2, K // 2)).transpose(-1, -2).flatten(-2)
    angle = torch.arange(x.shape[1])[:, None].double() * theta ** (-torch.arange(0, K, 2).double() / K)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


def logits_of(w, spec, tokens, seen):
    """tokens [B, S]; seen [B, S, S]: which positions a position attends to."""
    import torch
    from torch.nn.functional import embedding, scaled_dot_product_attention, silu

    def norm(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + spec["norm_eps"]) * weight

    rope = spec["rope_theta"], spec.get("halves", False)
    B, S = tokens.shape
    h = embedding(tokens, w["tok_embeddings.weight"])
    for i in range(sum(n.endswith("attention_norm.weight") for n in w)):
        p = f"layers.{i}."
        x = norm(h, w[p + "attention_norm.weight"])
        q = rotated((x @ w[p + "attention.wq.weight"].T).view(B, S, spec["H"], -1), *rope)
        k = rotated((x @ w[p + "attention.wk.weight"].T).view(B, S, spec["G"], -1), *rope)
        v = (x @ w[p + "attention.wv.weight"].T).view(B, S, spec["G"], -1)
        k, v = (t.repeat_interleave(spec["H"] // spec["G"], dim=2) for t in (k, v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        a = scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None])
        h = h + a.transpose(1, 2).reshape(B, S, -1) @ w[p + "attention.wo.weight"].T
        x = norm(h, w[p + "ffn_norm.weight"])
        x = silu(x @ w[p + "feed_forward.w1.weight"].T) * (x @ w[p + "feed_forward.w3.weight"].T)
        h = h + x @ w[p + "feed_forward.w2.weight"].T
    logits = norm(h, w["norm.weight"]) @ w["output.weight"].T
    return torch.cat((logits[:, :1], logits[:, :-1]), dim=1) if spec["shift"] else logits


def loss(checkpoint, spec_path, step1):
    import torch

    with open(spec_path) as file:
        spec = json.load(file)
    w = {n: t.requires_grad_() for n, t in load(checkpoint).items()}
    total, counted_tokens, hidden = 0, 0, 0
    for batch in spec["batches"]:
        B, S = batch["B"], batch["S"]
        noisy, counted, labels = (torch.tensor(batch[n]).view(B, S) for n in ("tokens", "counted", "labels"))
        ids = torch.where(counted == -100, noisy, counted)
        masked = noisy == spec["mask_id"]
        weights = torch.tensor(batch["weights"], dtype=torch.float32).double().view(B, S)
        if spec["shift"]:
            weights = torch.cat((weights[:, :1], weights[:, :-1]), dim=1)
        place = torch.arange(S)
        document = torch.zeros(B, S, dtype=torch.long)
        for start in batch["starts"] if spec["documents"] else []:
            document[start // S, start % S:] += 1
        # Padding is no part of LLaDA's batches; nothing attends to it.
        document = torch.where(place < torch.tensor(batch["row_tokens"])[:, None], document, -1)
        p_mask = torch.ones(B, S, dtype=torch.float64)
        for row, number in {(b, int(d)) for b in range(B) for d in document[b]}:
            same = masked[row] & (document[row] == number)
            if same.any():  # one rate for the whole sequence
                rates = weights[row][same]
                assert (rates == rates[0]).all() and rates[0] >= 1, rates
                p_mask[row][document[row] == number] = 1 / rates[0]
        logits = logits_of(w, spec, noisy, document[:, :, None] == document[:, None, :])
        token_loss = torch.nn.functional.cross_entropy(logits[masked], ids[masked], reduction="none") / p_mask[masked]
        total = total + token_loss.sum()
        first = torch.cat((torch.ones(B, 1, dtype=torch.bool), document[:, 1:] != document[:, :-1]), dim=1)
        can_count = (document >= 0) & ~(first if spec["shift"] else torch.zeros_like(first))
        assert (can_count == (counted != -100)).all() and (ids[can_count] != spec["mask_id"]).all()
        assert int((labels != -100).sum()) == int(masked.sum())
        counted_tokens += int(can_count.sum())
        hidden += int(masked.sum())
    mean = total / counted_tokens
    mean.backward()
    moments = load(step1, moments=True)
    distance = 0
    for name, weight in w.items():  # after the first step a moment is (1 - beta1) times the gradient
        ours = moments[f"optimizer.state.{name}.exp_avg"] / (1 - spec["beta1"])
        distance = max(distance, ((ours - weight.grad).norm() / weight.grad.norm()).item())
    norm = math.sqrt(sum(t.grad.pow(2).sum().item() for t in w.values()))
    print(json.dumps({"loss": mean.item(), "norm": norm, "distance": distance, "counted": counted_tokens,
                      "hidden": hidden}))


def generate(checkpoint, spec_path):
    import torch

    with open(spec_path) as file:
        spec = json.load(file)
    if os.path.exists(os.path.join(checkpoint, "config.json")):
        w, own = load_llada(checkpoint)
        spec.update(own)
    else:
        w = load(checkpoint)
    prompt, mask_id = torch.tensor([spec["prompt"]]), spec["mask_id"]
    length, block = spec["max_tokens"], spec["block_length"]
    blocks = length // block
    steps = spec["steps"] // blocks
    x = torch.full((1, prompt.shape[1] + length), mask_id)
    x[:, :prompt.shape[1]] = prompt
    with torch.no_grad():
        for number in range(blocks):
            begin = prompt.shape[1] + number * block
            open_masks = int((x[:, begin:begin + block] == mask_id).sum())
            transfers = [open_masks // steps + (i < open_masks % steps) for i in range(steps)]
            for count in transfers:
                mask_index = x == mask_id
                logits = logits_of(w, spec, x, torch.ones(1, x.shape[1], x.shape[1], dtype=torch.bool))
                logits = logits[..., :spec["vocabulary"]]
                x0 = logits.argmax(-1)
                x0_p = logits.softmax(-1).gather(-1, x0[..., None]).squeeze(-1)
                x0_p[:, begin + block:] = -math.inf
                confidence = torch.where(mask_index, x0_p, -math.inf)
                chosen = confidence[0].topk(count).indices
                x[0, chosen] = x0[0, chosen]
    print(json.dumps(x[0, prompt.shape[1]:].tolist()))


def choices(checkpoint, spec_path):
    """E over l in 1..L and sets of l hidden tokens of (L / l) sum log p, by enumeration."""
    import torch

    with open(spec_path) as file:
        spec = json.load(file)
    w = load(checkpoint)
    results = []
    with torch.no_grad():
        for text in spec["texts"]:
            ids = torch.tensor([text["ids"]])
            S, L = ids.shape[1], text["scored"]
            mean = 0
            for count in range(1, L + 1):
                sets = list(itertools.combinations(range(S - L, S), count))
                for places in sets:
                    hidden = torch.tensor(places)
                    noisy = ids.clone()
                    noisy[0, hidden] = spec["mask_id"]
                    logits = logits_of(w, spec, noisy, torch.ones(1, S, S, dtype=torch.bool))
                    likelihood = logits[0].log_softmax(-1)[hidden, ids[0, hidden]].sum().item()
                    mean += L / count * likelihood / len(sets) / L
            results.append(mean)
    print(json.dumps(results))


{"loss": loss, "generate": generate, "choices": choices}[sys.argv[1]](*sys.argv[2:])
