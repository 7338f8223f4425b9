# SPDX-License-Identifier: Apache-2.0
"""Trainings of GPT-NeoX for tests of `hearth convert`: DeepSpeed's ZeRO-1 files beside a model's.

zero.py imitate OUT TP DP PP  three steps of AdamW on OUT/neox (foreign.py neox OUT DIALECT TP 0) as DeepSpeed saves
                            them: on PP stages with a file for each layer, or with 0 a file for each rank
zero.py deepspeed OUT TP DP  the same by DeepSpeed 0.19.8 itself, whose Python runs this script; needs no accelerator
zero.py same OUT NATIVE     "equal", or the first difference of a converted checkpoint from the truth, which Hearth
                            converted from OUT/neox-weight, OUT/neox-exp_avg and so on to folders OUT/native-...
zero.py files OUT FOLDER    "equal", or a file of FOLDER, a step that Hearth wrote, which differs from OUT/neox
zero.py alike A B           "equal", or the tensors in which two native checkpoints differ
zero.py counts FOLDER       step, tokens and the schedule's count in a folder of DCP
zero.py keys FOLDER         some keys of FOLDER/model.yml; those of the schedule have to be those of the checkpoint
zero.py step BEFORE FOLDER  whether the newest checkpoint below FOLDER is one step of AdamW after BEFORE

Both leave OUT/neox with the files of the training, and models OUT/neox-exp_avg and so on whose weights are the moments.
"""
import collections
import dataclasses
import enum
import glob
import os
import sys
import types

import torch

STEPS, LR, KINDS = 3, 1e-3, ("weight", "exp_avg", "exp_avg_sq")


def model_file(out, rank):
    return f"{out}/neox/global_step2/mp_rank_{rank:02d}_model_states.pt"


def parameters_of(out, rank):
    """A rank's weights in bfloat16, without buffers."""
    state = torch.load(model_file(out, rank), weights_only=False)["module"]
    in_order = sorted(state, key=lambda name: int(name.split(".")[1]))
    return {name: state[name].bfloat16() for name in in_order if "inv_freq" not in name}


def groups_of(parameters):
    decay = [name for name, w in parameters.items() if w.dim() > 1]
    return [("weight_decay_params", decay, 0.1),
            ("no_weight_decay_params", [name for name in parameters if name not in decay], 0.0)]


def target(name, w, rank):
    """Ranks of tensor parallel share the norms."""
    rank = rank if w.dim() > 1 else 0
    generator = torch.Generator().manual_seed(hash_of(name) + 1000 * rank)
    return torch.randn(w.shape, generator=generator)


def hash_of(name):
    return sum(ord(c) * (i + 1) for i, c in enumerate(name)) % 1000


def write_truth(out, rank, truth):
    for kind in KINDS:
        folder = f"{out}/neox-{kind}/global_step2"
        os.makedirs(folder, exist_ok=True)
        torch.save({"module": truth[kind]}, f"{folder}/mp_rank_{rank:02d}_model_states.pt")


def classes(as_tuple=False):
    """The classes of DeepSpeed that its files name, where it is not installed. A parameter's place: two ways."""
    def module(name):
        for i in range(len(name.split("."))):
            sys.modules.setdefault(".".join(name.split(".")[:i + 1]), types.ModuleType(name))
        return sys.modules[name]

    address = (collections.namedtuple("fragment_address", ["numel", "start"]) if as_tuple else
               dataclasses.make_dataclass("fragment_address", ["numel", "start"]))
    stage = enum.Enum("ZeroStageEnum", {"optimizer_states": 1})
    scaler = type("LossScaler", (), {})
    for owner, found in (("deepspeed.utils.tensor_fragment", address), ("deepspeed.runtime.zero.config", stage),
                         ("deepspeed.runtime.fp16.loss_scaler", scaler)):
        found.__module__ = owner
        setattr(module(owner), found.__name__, found)
    return address, stage, scaler


EMBEDDING = "sequential.0.word_embeddings.weight"


def stages_of(parameters, stages):
    """The names of each stage's parameters, in the order of its modules. DeepSpeed gives the first of two stages the
    embedding and one of two blocks. Tied weights are a module of both."""
    if stages < 2:
        return [list(parameters)]
    layer = {name: int(name.split(".")[1]) for name in parameters}
    first = [name for name in parameters if layer[name] < 3]
    again = [EMBEDDING] if max(layer.values()) == 5 else []
    return [first, again + [name for name in parameters if name not in first]]


def name_in_optimizer(name, parameters, stages):
    tied = not any("final_linear" in n for n in parameters)
    if stages and tied and name == EMBEDDING:
        return "tied_modules.embed.word_embeddings.weight"
    return name.removeprefix("sequential.") if stages else name


def imitate(out, tp, dp, pp):
    tp, dp, pp = int(tp), int(dp), int(pp)
    for rank in range(tp):
        parameters = parameters_of(out, rank)
        masters = {name: torch.nn.Parameter(w.float()) for name, w in parameters.items()}
        adam = torch.optim.AdamW([{"params": [masters[n] for n in names], "weight_decay": decay}
                                  for _, names, decay in groups_of(parameters)], lr=LR, betas=(0.9, 0.95))
        for _ in range(STEPS):
            for name, w in masters.items():
                w.grad = w.detach() - target(name, w, rank)
            adam.step()
        truth = {"weight": {name: w.detach() for name, w in masters.items()}}
        for kind in KINDS[1:]:
            truth[kind] = {name: adam.state[w][kind] for name, w in masters.items()}
        write_truth(out, rank, truth)
        for stage, names in enumerate(stages_of(parameters, pp)):
            groups = groups_of({name: parameters[name] for name in names})
            for r in range(dp):
                name = f"bf16_zero_pp_rank_{r}_mp_rank_{stage * tp + rank:02d}_optim_states.pt"
                save_slice(f"{out}/neox/global_step2/{name}", groups, truth, r, dp,
                           lambda name: name_in_optimizer(name, parameters, pp))
        save_model(out, rank, {name: w.bfloat16() for name, w in truth["weight"].items()}, tp, dp, pp)


def save_slice(path, groups, truth, r, dp, renamed):
    address, stage, scaler = classes(as_tuple=dp == 3)
    mappings, flats, sizes = [], [], []
    for _, names, _ in groups:
        flat = {kind: torch.cat([truth[kind][n].reshape(-1) for n in names]) for kind in KINDS}
        total = -(-len(flat["weight"]) // (2 * dp)) * 2 * dp
        flat = {kind: torch.cat([v, torch.zeros(total - len(v))]) for kind, v in flat.items()}
        first, last = r * total // dp, (r + 1) * total // dp
        at, mapping = 0, collections.OrderedDict()
        for n in names:
            begin, end = max(at, first), min(at + truth["weight"][n].numel(), last)
            if begin < end:
                mapping[renamed(n)] = address(end - begin, begin - first)
            at += truth["weight"][n].numel()
        mappings.append(mapping)
        sizes.append(total - at if r == dp - 1 else 0)
        flats.append({kind: v[first:last] for kind, v in flat.items()})
    state = {"loss_scaler": scaler(), "zero_stage": stage.optimizer_states, "group_paddings": sizes,
             "base_optimizer_state": {
                 "state": {g: {"step": torch.tensor(float(STEPS)), "exp_avg": f["exp_avg"],
                               "exp_avg_sq": f["exp_avg_sq"]} for g, f in enumerate(flats)},
                 "param_groups": [{"name": name, "lr": LR, "params": [g], "weight_decay": decay,
                                   "betas": (0.9, 0.95), "eps": 1e-8, "amsgrad": False}
                                  for g, (name, _, decay) in enumerate(groups)]},
             "single_partition_of_fp32_groups": [f["weight"] for f in flats], "param_slice_mappings": mappings,
             "partition_count": [dp] * len(groups)}
    torch.save({"optimizer_state_dict": state, "ds_version": "0.19.8"}, path)


def save_model(out, rank, module, tp, dp, pp):
    """A rank's weights and state. Stages save a file for each layer, and each its own state."""
    layers = {}
    for name, w in module.items():
        _, number, rest = name.split(".", 2)
        layers.setdefault(int(number), {})[rest] = w
    for number, layer in layers.items() if pp else ():
        torch.save(layer, f"{out}/neox/global_step2/layer_{number:02d}-model_{rank:02d}-model_states.pt")
    for stage in range(max(pp, 1)):
        state = {"module": None if pp else module, "iteration": 7, "global_steps": STEPS, "dp_world_size": dp,
                 "mp_world_size": tp * max(pp, 1), "ds_config": {"lr": 1.5},
                 "np_rng_state": __import__("numpy").random.get_state(),
                 "random_rng_state": __import__("random").getstate()}
        torch.save(state, model_file(out, stage * tp + rank))


def nested(parameters):
    """A module whose parameters have these dotted names."""
    class Node(torch.nn.Module):
        def forward(self, targets):
            return sum(((w.float() - targets[name]) ** 2).mean() for name, w in self.named_parameters())

    root = Node()
    for name, w in parameters.items():
        node = root
        *path, leaf = name.split(".")
        for part in path:
            if part not in node._modules:
                node.add_module(part, Node())
            node = node._modules[part]
        node.register_parameter(leaf, torch.nn.Parameter(w))
    return root


def train(process, out, tp, dp):
    os.environ.update(RANK=str(process), LOCAL_RANK=str(process), WORLD_SIZE=str(tp * dp), DS_ACCELERATOR="cpu")
    torch.set_num_threads(1)
    import deepspeed
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, rank=process,
                               init_method=f"file://{out}/rendezvous", world_size=tp * dp)
    tp_groups = [torch.distributed.new_group([d * tp + t for t in range(tp)]) for d in range(dp)]
    dp_groups = [torch.distributed.new_group([d * tp + t for d in range(dp)]) for t in range(tp)]
    t, d = process % tp, process // tp
    mpu = types.SimpleNamespace(
        get_model_parallel_rank=lambda: t, get_model_parallel_world_size=lambda: tp,
        get_model_parallel_group=lambda: tp_groups[d], get_data_parallel_rank=lambda: d,
        get_data_parallel_world_size=lambda: dp, get_data_parallel_group=lambda: dp_groups[t])
    parameters = parameters_of(out, t)
    model = nested(parameters)
    by_name = dict(model.named_parameters())
    groups = [{"name": name, "params": [by_name[n] for n in names], "weight_decay": decay}
              for name, names, decay in groups_of(parameters)]
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95)), mpu=mpu,
        config={"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
                "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True})
    targets = {name: target(name, w, process) + d for name, w in parameters.items()}
    for _ in range(STEPS):
        engine.backward(engine(targets))
        engine.step()
    # 0.19.8 links the moments after the first group's first step, when the second group has none.
    engine.optimizer._hp_optimizer_states_linked = False
    engine.optimizer._lazy_init_hp_params_optimizer_state()
    truth = {kind: {} for kind in KINDS}
    for name, w in engine.module.named_parameters():
        truth["weight"][name] = safe_get_full_fp32_param(w).clone()
        for kind in KINDS[1:]:
            truth[kind][name] = safe_get_full_optimizer_state(w, kind).clone()
    if d == 0:
        write_truth(out, t, truth)
    engine.save_checkpoint(f"{out}/neox", tag="global_step2", client_state={"iteration": 7})
    torch.distributed.barrier()


def deepspeed_files(out, tp, dp):
    tp, dp = int(tp), int(dp)
    torch.multiprocessing.spawn(train, (out, tp, dp), nprocs=tp * dp)
    print(sorted(os.path.basename(name) for name in glob.glob(f"{out}/neox/global_step2/*optim_states.pt")))


def files(out, ours):
    """Files of the optimizer that Hearth wrote, next to those of DeepSpeed. Names differ where layers have files."""
    theirs = f"{out}/neox/global_step2"
    names = sorted(name for name in os.listdir(theirs) if name.endswith("optim_states.pt"))
    if names != sorted(name for name in os.listdir(ours) if name.endswith("optim_states.pt")):
        return print("other files")
    for name in names:
        classes(as_tuple=any("_pp_rank_2_" in n for n in names) and not any("_pp_rank_3_" in n for n in names))
        a = torch.load(f"{theirs}/{name}", weights_only=False)["optimizer_state_dict"]
        classes()
        b = torch.load(f"{ours}/{name}", weights_only=False)["optimizer_state_dict"]
        for g, (of_a, of_b) in enumerate(zip(a["param_slice_mappings"], b["param_slice_mappings"], strict=True)):
            places = [[(name.removeprefix("sequential."), place.numel, place.start) for name, place in of.items()]
                      for of in (of_a, of_b)]
            group_a, group_b = (of["base_optimizer_state"]["param_groups"][g] for of in (a, b))
            state_a, state_b = (of["base_optimizer_state"]["state"][g] for of in (a, b))
            tensors = [(of["single_partition_of_fp32_groups"][g], state["exp_avg"], state["exp_avg_sq"])
                       for of, state in ((a, state_a), (b, state_b))]
            if (places[0] != places[1] or any(group_b[key] != value for key, value in group_a.items())
                    or state_a["step"] != state_b["step"] or group_b["step"] != STEPS
                    or any(x.dtype != y.dtype or not torch.equal(x, y) for x, y in zip(*tensors))):
                return print(name, g, group_a, group_b, places)
        if any(a[key] != b[key] for key in ("group_paddings", "partition_count")) or b["zero_stage"] != 1:
            return print(name, a["group_paddings"], b["group_paddings"], b["partition_count"])
    print("equal")


def tensors_of(folder):
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    entries = checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata
    found = {name: torch.zeros(entry.size, dtype=entry.properties.dtype) for name, entry in entries.items()
             if isinstance(entry, TensorStorageMetadata)}
    checkpoint.load(found, checkpoint_id=folder)
    return found


def same(out, native):
    found, count = tensors_of(native), 0
    for kind in KINDS:
        for name, w in tensors_of(f"{out}/native-{kind}").items():
            stored = name if kind == "weight" else f"optimizer.state.{name}.{kind}"
            ours = found.pop(stored)
            if ours.dtype != torch.float32 or not torch.equal(ours, w):
                return print(stored, ours.dtype, (ours - w).abs().max())
            count += 1
    for name, value in found.items():
        assert name.endswith(".step") and value.item() == STEPS, (name, value)
    print("equal" if count % 3 == 0 and len(found) == count // 3 else f"{count} tensors, {sorted(found)}")


def alike(a, b):
    """Two folders of DCP have the same tensors."""
    one, other = tensors_of(a), tensors_of(b)
    differ = [name for name in {**one, **other} if name not in one or name not in other
              or one[name].dtype != other[name].dtype or not torch.equal(one[name], other[name])]
    print("equal" if not differ else sorted(differ))


def counts(folder):
    """PyTorch reads what is no tensor of a folder of DCP."""
    import torch.distributed.checkpoint as checkpoint
    found = {name: -1 for name in ("train_state.step", "train_state.ntokens_seen", "lr_scheduler.last_epoch")}
    checkpoint.load(found, checkpoint_id=folder, no_dist=True)
    print(*found.values())


def keys(folder):
    """GPT-NeoX reads model.yml with PyYAML, and asks for the schedule of its keys in the checkpoint."""
    import yaml
    found = yaml.safe_load(open(f"{folder}/model.yml"))
    state = torch.load(glob.glob(f"{folder}/global_step*/mp_rank_00_model_states.pt")[0], weights_only=True)
    rates = state["lr_scheduler"]
    warmup = found["warmup_iters"] if "warmup_iters" in found else found["warmup"] * found["lr_decay_iters"]
    assert rates["warmup_iter"] == warmup and rates["end_iter"] == found["lr_decay_iters"], (rates, found)
    assert rates["start_lr"] == found["optimizer"]["params"]["lr"] and rates["min_lr"] == found["min_lr"]
    assert rates["decay_style"] == found["lr_decay_style"] and rates["num_iters"] == state["iteration"]
    assert state["iteration"] == state["global_steps"] and state["module"] is None and "global_samples" not in state
    states = [torch.load(path, weights_only=True)
              for path in glob.glob(f"{folder}/global_step*/mp_rank_*_model_states.pt")]
    assert len(states) == found["pipe_parallel_size"] * found["model_parallel_size"] == state["mp_world_size"], found
    assert all(other == state for other in states), states
    print(*(f"{key}={found.get(key)}" for key in ("precision", "weight_decay", "warmup", "warmup_iters", "decay_lr_to",
                                                  "rms_norm_epsilon", "no_weight_tying", "pipe_partition_method")),
          state["iteration"], state["dp_world_size"])


def step(before, folder):
    """The gradient follows from the first moment; the second moment must follow from it."""
    newest = sorted(glob.glob(f"{folder}/**/checkpoints/step-*", recursive=True))[-1]
    old, new = tensors_of(before), tensors_of(newest)
    for name in [name for name in new if name.endswith(".exp_avg")]:
        g = (new[name] - 0.9 * old[name]) / (1 - 0.9)
        torch.testing.assert_close(new[name + "_sq"], 0.95 * old[name + "_sq"] + 0.05 * g * g, rtol=1e-4, atol=1e-9)
        assert new[name.replace(".exp_avg", ".step")].item() == STEPS + 1, name
    print("one step of AdamW")


if __name__ == "__main__":
    {"imitate": imitate, "deepspeed": deepspeed_files, "same": same,
     "step": step, "files": files, "alike": alike, "keys": keys, "counts": counts}[sys.argv[1]](*sys.argv[2:])
