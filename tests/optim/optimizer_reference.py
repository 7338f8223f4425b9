"""What PyTorch makes of the parameters, gradients and settings that adamw_oracle_test.cpp uses.

usage: optimizer_reference.py SETTINGS.json OUT.f64

SETTINGS.json: a list of runs, each with dtype, steps, lr, beta1, beta2, eps, weight_decay, weight_decay_on, max_norm,
schedule, and shapes: the parameters' shapes in plan order. Values are the formulas of weight() and gradient() below,
which the test has too. OUT.f64: for every run and step the norm before clipping, the learning rate and all parameters,
as float64.
"""

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


def train(settings: dict, out) -> None:
    dtype = getattr(torch, settings["dtype"])
    parameters = []
    for index, shape in enumerate(settings["shapes"]):
        parameters.append(torch.nn.Parameter(weight(index, math.prod(shape)).to(dtype).view(shape)))
    decays = [p.dim() >= 2 or settings["weight_decay_on"] == "all" for p in parameters]
    groups = [
        {"params": [p for p, d in zip(parameters, decays) if d], "weight_decay": settings["weight_decay"]},
        {"params": [p for p, d in zip(parameters, decays) if not d], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        [g for g in groups if g["params"]],
        lr=settings["lr"],
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["eps"],
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, settings["schedule"]))
    for step in range(1, settings["steps"] + 1):
        for index, p in enumerate(parameters):
            p.grad = gradient(index, p.numel(), step).to(dtype).view(p.shape)
        norm = torch.nn.utils.clip_grad_norm_(parameters, settings["max_norm"] or math.inf)
        rate = optimizer.param_groups[0]["lr"]
        optimizer.step()
        scheduler.step()
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
