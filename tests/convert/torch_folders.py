# SPDX-License-Identifier: Apache-2.0
"""Folders of torch.distributed.checkpoint as torchtitan writes them with a training's state, by the same calls: FSDP2
and tensor parallel on processes of gloo, AdamW, a schedule, a dataloader's state. And comparisons.

torch_folders.py make OUT DIALECT DP TP DTYPE TIED   DIALECT: 2025, 2026 (torchtitan 0.3); TIED: 0, 1. OUT.safetensors
                                     has the whole tensors. Every step has the rate 1e-3
torch_folders.py native OURS OUT     "equal", or the first difference of Hearth's checkpoint from OUT.safetensors
torch_folders.py same A B [KEY]...   the same for two folders of one dialect, without the entries KEY and KEY.*
torch_folders.py next FOLDER METRICS STEP   the rate in FOLDER equals that of step STEP in a metrics file: "equal"
"""
import json
import os
import pickle
import socket
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from safetensors.torch import load_file, save_file

D, H, G, K, F, V, L, STEPS = 48, 6, 2, 8, 64, 67, 2, 3


def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


class Joined(nn.Module):
    """torchtitan 0.3's FusedQKVLinear: the model's state dict has three matrices, the optimizer has one."""

    def __init__(self):
        super().__init__()
        self.wqkv = linear((H + 2 * G) * K, D)
        self.register_state_dict_post_hook(self.split)

    @staticmethod
    def split(module, state, prefix, _):
        from torch.distributed.tensor import DTensor, Replicate
        w = state.pop(prefix + "wqkv.weight")
        if isinstance(w, DTensor):
            w = w.redistribute(w.device_mesh, [Replicate()] * w.device_mesh.ndim)
        for name, part in split(w).items():
            state[prefix + name + ".weight"] = part


def split(w):
    per_key = w.reshape(G, H // G + 2, K, *w.shape[1:])
    parts = {"wq": per_key[:, :H // G], "wk": per_key[:, H // G], "wv": per_key[:, H // G + 1]}
    return {name: part.reshape(-1, *w.shape[1:]).contiguous() for name, part in parts.items()}


class Block(nn.Module):
    def __init__(self, dialect):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(D), nn.RMSNorm(D)
        self.attention, self.feed_forward = nn.Module(), nn.Module()
        if dialect == "2026":
            self.attention.qkv_linear = Joined()
        else:
            self.attention.wq, self.attention.wk, self.attention.wv = (linear(n * K, D) for n in (H, G, G))
        self.attention.wo = linear(D, H * K)
        self.feed_forward.w1, self.feed_forward.w2, self.feed_forward.w3 = linear(F, D), linear(D, F), linear(F, D)


class Model(nn.Module):
    def __init__(self, dialect, tied):
        super().__init__()
        self.tok_embeddings = nn.Embedding(V, D)
        self.layers = nn.ModuleDict({str(i): Block(dialect) for i in range(L)})
        self.norm = nn.RMSNorm(D)
        self.head = "lm_head" if dialect == "2026" else "output"
        setattr(self, self.head, linear(V, D))
        if tied:
            getattr(self, self.head).weight = self.tok_embeddings.weight


def share(model, dp, tp, tied):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
    if tp > 1:
        for name, module in model.named_modules():
            leaf = name.split(".")[-1]
            for key, p in list(module.named_parameters(recurse=False)):
                if tied and leaf == model.head:
                    continue
                place = Replicate() if "norm" in leaf else Shard(1) if leaf in ("wo", "w2") else Shard(0)
                setattr(module, key, nn.Parameter(distribute_tensor(p.data, mesh["tp"], [place])))
        if tied:
            getattr(model, model.head).weight = model.tok_embeddings.weight
    if dp > 1:
        for block in model.layers.values():
            fully_shard(block, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])


def flat(optimizer):
    """torchtitan 0.3's get_flat_optim_state_dict."""
    state, out, names = optimizer.state_dict(), {}, {}
    for group in state["param_groups"]:
        for i, name in zip(group["params"], group["param_names"]):
            names[i] = name
            out |= {f"param_groups.{name}.{k}": v for k, v in group.items() if k not in ("params", "param_names")}
    for i, of_parameter in state["state"].items():
        out |= {f"state.{names[i]}.{k}": v for k, v in of_parameter.items()}
    return out


def rank_main(rank, out, dialect, dp, tp, dtype, tied, port):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
    from torch.distributed.tensor import DTensor, Replicate
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(dp * tp))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=dp * tp)
    torch.manual_seed(7)
    model = Model(dialect, tied).to(getattr(torch, dtype))
    share(model, dp, tp, tied)
    named = list(model.named_parameters())
    parameters = [p for _, p in named]
    groups = [{"params": parameters, "param_names": [n for n, _ in named]}] if dialect == "2026" else parameters
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    if dialect == "2026":
        optimizer.param_groups[0]["foreach"] = False
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(100 + step)
        for p in parameters:
            gradient = torch.randn(p.shape, generator=generator)
            if isinstance(p, DTensor):
                whole = DTensor.from_local(gradient, p.device_mesh, [Replicate()] * p.device_mesh.ndim, run_check=False)
                gradient = whole.redistribute(p.device_mesh, p.placements)
            p.grad = gradient.to(p.dtype)
        optimizer.step()
        schedule.step()
    weights = model.state_dict()
    if dialect == "2026":
        state, rates = flat(optimizer), {"last_epoch": schedule.last_epoch}
        counts = {"step": STEPS, "ntokens_seen": STEPS * 4096}
    else:
        state = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
        rates = {k: v for k, v in schedule.state_dict().items() if k != "lr_lambdas"}
        counts = {"step": torch.tensor(STEPS, dtype=torch.int32), "ntokens_seen": torch.tensor(STEPS * 4096)}
    loader = {f"dp_rank_{rank // tp}": pickle.dumps({"_sample_idx": 17}), "world_size": dp}
    dcp.save(weights | {"optimizer": state, "lr_scheduler": rates, "train_state": counts, "dataloader": loader},
             checkpoint_id=out)
    whole = {}
    for key, value in list(weights.items()) + [("optimizer." + k, v) for k, v in state.items()]:
        if isinstance(value, torch.Tensor):
            whole[key] = (value.full_tensor() if isinstance(value, DTensor) else value).detach().clone().contiguous()
    if rank == 0:
        save_file(whole, out + ".safetensors")
    dist.barrier()
    dist.destroy_process_group()


def make(out, dialect, dp, tp, dtype, tied):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        arguments = (out, dialect, int(dp), int(tp), dtype, tied == "1", s.getsockname()[1])
    if arguments[2] * arguments[3] == 1:
        return rank_main(0, *arguments)
    torch.multiprocessing.spawn(rank_main, arguments, nprocs=arguments[2] * arguments[3])


def loaded(folder):
    entries = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {k: torch.zeros(v.size, dtype=v.properties.dtype) if hasattr(v, "size") else 0 for k, v in entries.items()}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    return state


def difference(a, b):
    if set(a) != set(b):
        return f"names: {sorted(set(a) ^ set(b))[:6]}"
    for k, x in a.items():
        y = b[k]
        if isinstance(x, torch.Tensor):
            alike = x.dtype == y.dtype and torch.equal(x, y)
        else:
            alike = (type(x), x) == (type(y), y)
        if not alike:
            return f"{k}: {str(x)[:60]} {str(y)[:60]}".replace("\n", " ")
    return "equal"


def native(ours, out):
    """Moments in a native checkpoint of a run file without optimizer.moments_dtype are float32."""
    want = {}
    for name, tensor in load_file(out + ".safetensors").items():
        if tensor.dim() > 0 and name.startswith("optimizer."):
            tensor = tensor.float()
        name = name.replace("lm_head", "output")
        if ".wqkv." in name:
            parts = {k: tensor for k in ("wq", "wk", "wv")} if tensor.dim() == 0 else split(tensor)
            want |= {name.replace("qkv_linear.wqkv", k): part for k, part in parts.items()}
        else:
            want[name.replace("qkv_linear.", "")] = tensor
    found = loaded(ours)
    if "output.weight" not in found and torch.equal(want["output.weight"], want["tok_embeddings.weight"]):
        del want["output.weight"]  # tied
    return difference(found, want)


def same(a, b, *without):
    def kept(state):
        return {k: v for k, v in state.items() if not any(k == w or k.startswith(w + ".") for w in without)}
    return difference(kept(loaded(a)), kept(loaded(b)))


def next_rate(folder, metrics, step):
    """Every weight's rate in a folder of torchtitan 0.3, and its counts, against what a training did one step later."""
    state, before, after = loaded(folder), None, None
    for line in open(metrics):
        record = json.loads(line)
        before = record if record.get("step") == int(step) - 1 and "lr" in record else before
        after = record if record.get("step") == int(step) and "lr" in record else after
    rates = {v for k, v in state.items() if k.endswith(".lr")}
    counts = [state[k] for k in ("lr_scheduler.last_epoch", "train_state.step", "train_state.ntokens_seen")]
    want = [before["step"], before["step"], before["tokens"]]
    return "equal" if rates == {after["lr"]} and counts == want else f"{rates} {after['lr']} {counts} {want}"


if __name__ == "__main__":
    commands = {"make": make, "native": native, "same": same, "next": next_rate}
    print(commands[sys.argv[1]](*sys.argv[2:]) or "done")
