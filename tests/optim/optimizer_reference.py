# SPDX-License-Identifier: Apache-2.0
"""What PyTorch makes of the parameters, gradients and settings that optimizer_oracle_test.cpp uses.

usage: optimizer_reference.py SETTINGS.json OUT.f64

SETTINGS.json: a list of runs, each with dtype, steps, lr, beta1, beta2, eps, weight_decay, weight_decay_on, max_norm,
name, products, momentum, nesterov, ns_steps, adjust_lr_fn, groups, schedule, and names and shapes: the parameters'
shapes in plan order. Values are the formulas of weight()
and gradient() below, which the test has too. OUT.f64: for every run and step the norm before clipping, the learning
rate and all parameters, as float64.
"""

import contextlib
import fnmatch
import json
import math
import sys

import torch


def weight(index: int, numel: int) -> torch.Tensor:
    i = torch.arange(numel, dtype=torch.float64)
    return ((i * 37 + index * 11) % 257 - 128) / 512


def gradient(index: int, numel: int, step: int) -> torch.Tensor:
    """Whole multiples of a power of two; every third step is too large and gets clipped."""
    i = torch.arange(numel, dtype=torch.float64)
    size = 1 / 256 if step % 3 == 0 else 1 / 65536
    return ((i * 7919 + index * 131 + step * 104729) % 2003 - 1001) * size


def factor(step: int, schedule: dict) -> float:
    """torchtitan's multiplier of the rate at scheduler step `step` (0 before the first update), own words."""
    total, warmup = schedule["total"], schedule["warmup"]
    decay = total - warmup if schedule["decay_ratio"] < 0 else round(total * schedule["decay_ratio"])
    stable = total + 1 - warmup - decay
    if step < warmup:
        return (step + 1) / warmup
    if step < warmup + stable:
        return 1.0
    progress = (step + 1 - (warmup + stable)) / decay
    shape = {
        "linear": lambda p: 1 - p,
        "cosine": lambda p: 0.5 * (1 + math.cos(math.pi * p)),
        "sqrt": lambda p: 1 - math.sqrt(p),
    }[schedule["type"]](progress)
    return schedule["floor"] + (1 - schedule["floor"]) * shape


@contextlib.contextmanager
def newton_schulz_in(dtype: torch.dtype):
    """torch.optim.Muon's Newton-Schulz always casts to bfloat16: inside, it casts to `dtype`."""
    original = torch.Tensor.bfloat16
    torch.Tensor.bfloat16 = lambda tensor: tensor.to(dtype, copy=True)
    try:
        yield
    finally:
        torch.Tensor.bfloat16 = original


def optimizers_of(settings: dict, groups: list[dict]) -> list[torch.optim.Optimizer]:
    adam = {"lr": settings["lr"], "betas": (settings["beta1"], settings["beta2"]), "eps": settings["eps"]}
    if settings["name"] != "Muon":
        return [getattr(torch.optim, settings["name"])(groups, **adam)]
    is_matrix = [name.startswith("layers.") and len(shape) == 2
                 for name, shape in zip(settings["names"], settings["shapes"])]
    keys = ("momentum", "nesterov", "ns_steps", "adjust_lr_fn")
    return [
        torch.optim.Muon([g for g, matrix in zip(groups, is_matrix) if matrix], lr=settings["lr"],
                         **{key: settings[key] for key in keys}),
        torch.optim.AdamW([g for g, matrix in zip(groups, is_matrix) if not matrix], **adam),
    ]


def train(settings: dict, out) -> None:
    dtype = getattr(torch, settings["dtype"])
    parameters = []
    for index, shape in enumerate(settings["shapes"]):
        parameters.append(torch.nn.Parameter(weight(index, math.prod(shape)).to(dtype).view(shape)))
    groups = []
    for name, p in zip(settings["names"], parameters):
        decays = p.dim() >= 2 or settings["weight_decay_on"] == "all"
        group = {"params": [p], "weight_decay": settings["weight_decay"] if decays else 0.0, "lr_factor": 1.0}
        own = next((g for g in settings["groups"] if fnmatch.fnmatchcase(name, g["pattern"])), None)
        if own is not None:
            group["lr_factor"] = own["lr_factor"]
            if own["weight_decay"] >= 0:
                group["weight_decay"] = own["weight_decay"]
        groups.append(group)
    optimizers = optimizers_of(settings, groups)
    # What LambdaLR does, with the groups' own factors.
    for step in range(1, settings["steps"] + 1):
        rate = settings["lr"] * factor(step - 1, settings["schedule"])
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = rate * group["lr_factor"]
        for index, p in enumerate(parameters):
            p.grad = gradient(index, p.numel(), step).to(dtype).view(p.shape)
        norm = torch.nn.utils.clip_grad_norm_(parameters, settings["max_norm"] or math.inf)
        with newton_schulz_in(getattr(torch, settings["products"])):
            for optimizer in optimizers:
                optimizer.step()
        flat = torch.cat([p.detach().reshape(-1).double() for p in parameters])
        row = torch.cat([torch.tensor([norm.item(), rate], dtype=torch.float64), flat])
        out.write(row.numpy().tobytes())


def main() -> None:
    torch.set_num_threads(1)
    with open(sys.argv[1]) as runs, open(sys.argv[2], "wb") as out:
        for settings in json.load(runs):
            train(settings, out)


if __name__ == "__main__":
    main()
