# SPDX-License-Identifier: Apache-2.0
"""NxD's optimizer by torch_xla itself on a CPU, for a slow test. Runs in a Python with torch_xla and safetensors.

One rank: with two, XLA's own reduce-scatter waits for ever on two cores. nxd_state.py has the slices of several.

nxd_xla.py train OUT          three steps of ZeroRedundancyOptimizer over AdamW on OUT/nxd, of one tensor rank and one
                              stage, saved with torch_xla's serialization; two more steps are kept as the truth
nxd_xla.py resume OUT FOLDER  loads FOLDER, a step that Hearth wrote, and takes the two steps: "equal" if they have
                              the bits of the uninterrupted training
"""
import os
import sys

import torch

from nxd_state import LR, NO_DECAY, STEPS, gradient, in_modules_order, rewrite_model, step_folder, write_truth

FILE = "dp_rank_00_tp_rank_00_pp_rank_00.pt"
KINDS = ("weight", "exp_avg", "exp_avg_sq")


def order_of(weights):
    """Names in the order of the optimizer's numbers."""
    last = [name for name in weights if any(word in name for word in NO_DECAY["matrices"])]
    return [name for name in weights if name not in last], last


def optimizer_of(weights):
    import torch_xla
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
    parameters = {name: torch.nn.Parameter(w.to(torch_xla.device())) for name, w in weights.items()}
    groups = [{"params": [parameters[name] for name in names], "weight_decay": decay}
              for names, decay in zip(order_of(weights), (0.01, 0.0))]
    return parameters, ZeroRedundancyOptimizer(groups, torch.optim.AdamW, lr=LR, betas=(0.9, 0.95), pin_layout=False,
                                               grad_clipping=False, save_master_weights=True)


def steps(parameters, optimizer, start, numbers):
    import torch_xla
    for number in numbers:
        for name, w in parameters.items():
            w.grad = gradient(name, start[name], number).to(w.dtype).to(w.device)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch_xla.sync()


def shards(parameters, optimizer):
    """What this rank has, by the optimizer's numbers, and the model's weights by name."""
    state = optimizer.state_dict()
    found = {kind: {i: of[kind].cpu() for i, of in state["base_state"].items()} for kind in KINDS[1:]}
    found["weight"] = {i: w.cpu() for i, w in state["sharded_master_weights"].items()}
    return found, {name: w.detach().cpu() for name, w in parameters.items()}


def worker(_, out, folder):
    import torch_xla.utils.serialization as xser
    model = torch.load(f"{folder or step_folder(out)}/model/{FILE}", weights_only=True)
    names = sorted((name for name in model if "inv_freq" not in name), key=in_modules_order)
    parameters, optimizer = optimizer_of({name: model[name] for name in names})
    path = f"{folder or step_folder(out)}/optim/{FILE}"
    start = torch.load(out + "/start.pt", weights_only=True)
    if folder:
        optimizer.load_state_dict(xser.load(path))
    else:
        steps(parameters, optimizer, start, range(STEPS))
        xser.save(optimizer.state_dict(), path, master_only=False)
        torch.save(shards(parameters, optimizer), out + "/saved.pt")
    steps(parameters, optimizer, start, range(STEPS, STEPS + 2))
    torch.save(shards(parameters, optimizer), f"{out}/{'resumed' if folder else 'later'}.pt")


def run(out, folder):
    os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
    import torch_xla.distributed.xla_multiprocessing as processes
    processes.spawn(worker, args=(out, folder), start_method="spawn")


def found(out, name):
    return torch.load(f"{out}/{name}.pt", weights_only=True)


def train(out):
    path = f"{step_folder(out)}/model/{FILE}"
    model = torch.load(path, weights_only=True)
    names = sorted((name for name in model if "inv_freq" not in name), key=in_modules_order)
    start = {name: model[name].clone() for name in names}
    torch.save(start, out + "/start.pt")
    os.makedirs(step_folder(out) + "/optim")
    run(out, None)
    by_number, weights = found(out, "saved")
    names = sum(order_of(start), [])
    write_truth(out, FILE, {kind: {name: by_number[kind][i] for i, name in enumerate(names)} for kind in KINDS})
    rewrite_model(path, weights)
    torch.save({"epoch": 1, "global_step": 7}, step_folder(out) + "/user_content.pt")


def resume(out, folder):
    run(out, folder)
    (later, weights), (resumed, weights_resumed) = found(out, "later"), found(out, "resumed")
    for a, b in [(weights, weights_resumed)] + [(later[kind], resumed[kind]) for kind in KINDS]:
        for key, w in a.items():
            if w.dtype != b[key].dtype or not torch.equal(w, b[key]):
                return print(key, w.dtype, b[key].dtype)
    print("equal")


if __name__ == "__main__":
    {"train": train, "resume": resume}[sys.argv[1]](*sys.argv[2:])
