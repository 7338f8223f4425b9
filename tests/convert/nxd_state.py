# SPDX-License-Identifier: Apache-2.0
"""Trainings of NxD for tests of `hearth convert`: the optimizer's files beside a model's.

nxd_state.py train OUT DP FORM [xser] [bfloat16] [whole] [modules]
                              three steps of AdamW on OUT/nxd (foreign.py nxd OUT TP PP ...). FORM: all or matrices, the
                              weights that decay. xser: a file for each tensor; bfloat16: so are weights and moments,
                              and no float32 weights are kept; whole: no ZeRO; modules: the model's files have the order
                              of NxD's modules, and not foreign.py's
nxd_state.py same OUT NATIVE  "equal", or the first difference of a converted checkpoint from the truth, which Hearth
                              converted from OUT/nxd-weight, OUT/nxd-exp_avg and so on to folders OUT/native-...
nxd_state.py files OUT FOLDER [moved]  "equal", or a file of FOLDER, a step that Hearth wrote, which differs from OUT's
nxd_state.py resume OUT FOLDER DP FORM  loads FOLDER's files as torch_xla does, and goes on: "equal" if the next steps
                              have the bits of OUT's training

The optimizer is what torch_xla's ZeroRedundancyOptimizer makes of torch's AdamW: one of them for each rank of data
parallel, over rows of every parameter, which are padded to the same number.
"""
import glob
import os
import re
import sys

import torch

from foreign import nxd_file, tensor_reference

STEPS, LR, KINDS = 3, 1e-3, ("weight", "exp_avg", "exp_avg_sq")
NO_DECAY = {"all": ["bias", "LayerNorm"], "matrices": ["bias", "norm"]}


def step_folder(out):
    return out + "/nxd/step_2"


def places(folder):
    """(tensor rank, stage, file) of a model's folder."""
    for path in sorted(glob.glob(folder + "/*_pp_rank_*.pt")):
        if not path.endswith(".info.pt"):
            tp, pp = re.search(r"tp_rank_(\d+)_pp_rank_(\d+)", path).groups()
            yield int(tp), int(pp), path


def parameters_of(path):
    return {name: w.clone() for name, w in nxd_file(path).items() if "inv_freq" not in name}


MODULES = ["embed_tokens", "q_proj", "weight_q", "k_proj", "weight_k", "v_proj", "weight_v", "qkv_proj", "o_proj",
           "gate_up", "down", "input_layernorm", "post_attention", "model.norm", "lm_head"]


def in_modules_order(name):
    """Where named_parameters() of NxD's Llama has a parameter."""
    layer = int(name.split(".")[2]) if ".layers." in name else -1 if "embed" in name else 10**6
    return layer, next((i for i, word in enumerate(MODULES) if word in name), len(MODULES))


def gradient(name, w, step):
    """Ranks of tensor parallel that have the same weight agree: on norms, and on copies of keys."""
    seed = int(w.double().abs().sum() * 1e6) % 2**30 + sum(ord(c) * (i + 1) for i, c in enumerate(name)) + 7919 * step
    return torch.randn(w.shape, generator=torch.Generator().manual_seed(seed))


def shards_of(w, dp):
    """Every rank's rows: torch_xla's _shard_tensor()."""
    missing = -w.shape[0] % dp
    return (torch.cat([w, w.new_zeros(missing, *w.shape[1:])]) if missing else w).chunk(dp)


class Zero:
    """All ranks of data parallel of one tensor rank and one stage."""
    def __init__(self, parameters, dp, form, dtype, start):
        """`start` decides the gradients: the weights before the first step."""
        self.parameters, self.dp, self.start = parameters, dp, start
        no_decay = NO_DECAY[form]
        groups = [[n for n in parameters if not any(word in n for word in no_decay)],
                  [n for n in parameters if any(word in n for word in no_decay)]]
        self.names = groups[0] + groups[1]
        self.masters = [{n: torch.nn.Parameter(shards_of(w, dp)[r].to(dtype).clone()) for n, w in parameters.items()}
                        for r in range(dp)]
        self.adams = [torch.optim.AdamW([{"params": [of[n] for n in names], "weight_decay": decay}
                                         for names, decay in zip(groups, (0.01, 0.0))], lr=LR, betas=(0.9, 0.95))
                      for of in self.masters]

    def step(self, number):
        for r, adam in enumerate(self.adams):
            for name, w in self.masters[r].items():
                w.grad = shards_of(gradient(name, self.start[name], number), self.dp)[r].to(w.dtype).clone()
            adam.step()

    def whole(self, tensor_of):
        """tensor_of(rank, name), joined and without padding."""
        return {n: torch.cat([tensor_of(r, n) for r in range(self.dp)])[:w.shape[0]]
                for n, w in self.parameters.items()}

    def truth(self):
        truth = {"weight": self.whole(lambda r, n: self.masters[r][n].detach())}
        for kind in KINDS[1:]:
            truth[kind] = self.whole(lambda r, n, kind=kind: self.adams[r].state[self.masters[r][n]][kind])
        return truth

    def state_dict(self, r, with_weights, is_sharded=True):
        state = self.adams[r].state_dict()
        if not is_sharded:
            return state
        found = {"state": {}, "param_groups": state["param_groups"], "base_state": state["state"],
                 "shape_info": {i: self.parameters[n].shape for i, n in enumerate(self.names)}}
        if with_weights:
            found["sharded_master_weights"] = {i: self.masters[r][n].data for i, n in enumerate(self.names)}
        return found

    def load(self, r, state):
        """torch_xla's load_state_dict()."""
        fresh = self.adams[r].state_dict()
        assert [len(group["params"]) for group in fresh["param_groups"]] == [len(g["params"])
                                                                            for g in state["param_groups"]]
        self.adams[r].load_state_dict({"state": state["base_state"], "param_groups": state["param_groups"]})
        for i, n in enumerate(self.names):
            self.masters[r][n].data.copy_(state["sharded_master_weights"][i])


def save_xser(state, path):
    """torch_xla.utils.serialization.save(): tensors in the order in which they are met."""
    reference, count = tensor_reference(), 0
    os.makedirs(path + ".tensors")

    def visit(value, key=None):
        nonlocal count
        if isinstance(value, torch.Tensor) and key != "step":
            torch.save(value.clone(), f"{path}.tensors/tensor_{count}.pt")
            found = reference()
            found.tid = count
            count += 1
            return found
        if isinstance(value, dict):
            return {k: visit(v, k) for k, v in value.items()}
        return [visit(v) for v in value] if isinstance(value, list) else value
    torch.save(visit(state), path)


def load(path):
    tensor_reference()

    def visit(value):
        if type(value).__name__ == "TensorReference":
            return torch.load(f"{path}.tensors/tensor_{value.tid}.pt", weights_only=True)
        if isinstance(value, dict):
            return {k: visit(v) for k, v in value.items()}
        return [visit(v) for v in value] if isinstance(value, list) else value
    return visit(torch.load(path, weights_only=False))


def write_truth(out, name, truth):
    for kind in KINDS:
        os.makedirs(f"{out}/nxd-{kind}", exist_ok=True)
        torch.save(truth[kind], f"{out}/nxd-{kind}/{name}")


def train(out, dp, form, *words):
    dtype = torch.bfloat16 if "bfloat16" in words else torch.float32
    folder = step_folder(out)
    os.makedirs(folder + "/optim")
    for tp, pp, path in places(folder + "/model"):
        parameters = parameters_of(path)
        if "modules" in words:
            parameters = {name: parameters[name] for name in sorted(parameters, key=in_modules_order)}
        start = {name: w.clone() for name, w in parameters.items()}
        os.makedirs(f"{out}/nxd-start", exist_ok=True)
        torch.save(start, f"{out}/nxd-start/{os.path.basename(path)}")
        zero = Zero(parameters, int(dp), form, dtype, start)
        for number in range(STEPS):
            zero.step(number)
        truth = zero.truth()
        if "whole" in words:  # the model's files alone have the weights
            truth["weight"] = {name: w.to(parameters[name].dtype) for name, w in truth["weight"].items()}
        write_truth(out, os.path.basename(path), truth)
        for name, w in parameters.items():
            w.copy_(truth["weight"][name])
        rewrite_model(path, parameters)
        for r in range(int(dp)):
            name = f"{folder}/optim/dp_rank_{r:02d}_tp_rank_{tp:02d}_pp_rank_{pp:02d}.pt"
            state = zero.state_dict(r, "bfloat16" not in words, "whole" not in words)
            (save_xser if "xser" in words else torch.save)(state, name)
    schedule = torch.optim.lr_scheduler.LambdaLR(zero.adams[0], lambda step: 1.0)
    for _ in range(7):
        schedule.step()
    torch.save(schedule.state_dict(), folder + "/scheduler.pt")
    torch.save({"epoch": 1, "global_step": 7, "cli_args": {"seq_len": 64}}, folder + "/user_content.pt")


def rewrite_model(path, parameters):
    state = torch.load(path, weights_only=False)
    state = {**{name: state[name] for name in parameters}, **{name: state[name] for name in state}}
    for name, w in parameters.items():
        if os.path.isdir(path + ".tensors"):
            torch.save(w, f"{path}.tensors/tensor_{state[name].tid}.pt")
        else:
            state[name] = w
    torch.save(state, path)


def tensors_of(folder):
    from zero import tensors_of
    return tensors_of(folder)


def same(out, native):
    found, count = tensors_of(native), 0
    for kind in KINDS:
        for name, w in tensors_of(f"{out}/native-{kind}").items():
            ours = found.pop(name if kind == "weight" else f"optimizer.state.{name}.{kind}")
            kept = w.dtype if kind == "weight" else torch.float32  # the run file says no other type for moments
            if ours.dtype != kept or not torch.equal(ours, w.to(kept)):
                return print(kind, name, ours.dtype, w.dtype, (ours.float() - w.float()).abs().max())
            count += 1
    for name, value in found.items():
        assert name.endswith(".step") and value.item() == STEPS, (name, value)
    print("equal" if count % 3 == 0 and len(found) == count // 3 else f"{count} tensors, {sorted(found)}")


def alike(a, b, where):
    """Numbers may be tensors."""
    if isinstance(a, torch.Tensor) and a.dim() > 0:
        assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), where
    elif isinstance(a, dict):
        for key, value in a.items():
            if key not in ("decoupled_weight_decay", "initial_lr"):
                alike(value, b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for i, value in enumerate(a):
            alike(value, b[i], f"{where}[{i}]")
    else:
        assert a == b, (where, a, b)


def files(out, ours, *words):
    theirs = step_folder(out) + "/optim"
    names = sorted(name for name in os.listdir(theirs) if name.endswith(".pt"))
    found = sorted(name for name in os.listdir(ours + "/optim") if name.endswith(".pt") and ".info." not in name)
    assert names == found, (names, found)
    for name in names:
        alike(load(f"{theirs}/{name}"), load(f"{ours}/optim/{name}"), name)
        if os.path.isdir(f"{ours}/optim/{name}.tensors") and "info" in words:
            info = torch.load(f"{ours}/optim/{name}.info.pt", weights_only=True)
            for tid, of in info.items():
                w = torch.load(f"{ours}/optim/{name}.tensors/tensor_{tid}.pt", weights_only=True)
                assert of == {"dtype": w.dtype, "shape": w.shape, "expert_model_parallel": False}, (name, tid)
    schedule = torch.load(ours + "/scheduler.pt", weights_only=True)
    truth = torch.load(step_folder(out) + "/scheduler.pt", weights_only=False)
    assert schedule["last_epoch"] == truth["last_epoch"] == 7 and schedule["_step_count"] == truth["_step_count"]
    assert torch.load(ours + "/user_content.pt", weights_only=True) == {"epoch": 0, "global_step": 7}
    print("equal")


def resume(out, folder, dp, form):
    """The training of one rank goes on in one piece; the files go on with slices, after torch_xla's loading."""
    for tp, pp, path in places(folder + "/model"):
        truth = {kind: torch.load(f"{out}/nxd-{kind}/{os.path.basename(path)}", weights_only=True) for kind in KINDS}
        start = torch.load(f"{out}/nxd-start/{os.path.basename(path)}", weights_only=True)
        one = Zero(truth["weight"], 1, form, torch.float32, start)
        for name, w in one.masters[0].items():
            one.adams[0].state[w] = {"step": torch.tensor(float(STEPS)), "exp_avg": truth["exp_avg"][name].clone(),
                                     "exp_avg_sq": truth["exp_avg_sq"][name].clone()}
        zero = Zero(parameters_of(path), int(dp), form, torch.float32, start)
        for r in range(int(dp)):
            zero.load(r, load(f"{folder}/optim/dp_rank_{r:02d}_tp_rank_{tp:02d}_pp_rank_{pp:02d}.pt"))
        schedule = torch.optim.lr_scheduler.LambdaLR(zero.adams[0], lambda step: 1.0)
        schedule.load_state_dict(torch.load(folder + "/scheduler.pt", weights_only=True))
        assert schedule.last_epoch == 7 and schedule.get_last_lr() == [LR, LR]
        for number in range(STEPS, STEPS + 2):
            one.step(number)
            zero.step(number)
        for kind in KINDS:
            for name, w in one.truth()[kind].items():
                if not torch.equal(w, zero.truth()[kind][name]):
                    return print(tp, pp, kind, name)
    print("equal")


if __name__ == "__main__":
    {"train": train, "same": same, "files": files, "resume": resume}[sys.argv[1]](*sys.argv[2:])
