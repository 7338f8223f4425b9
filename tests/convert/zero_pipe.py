# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed 0.19.8 itself, as GPT-NeoX runs it with pipeline stages: a file for each layer, moments for each stage.

zero_pipe.py train OUT TP DP PP STEPS ACCUMULATION [FROM]
        STEPS of AdamW from the layers of OUT/neox/global_step2, or going on from the folder FROM; "3+2" saves after 3,
        too. With weights:FOLDER in place of FROM it begins with the weights of that folder. ACCUMULATION is the type of
        summed gradients: with fp32, DeepSpeed takes its BF16_Optimizer, with bf16 that of ZeRO. Leaves OUT/trained, and
        in OUT/state-weight and so on what the optimizer had: after it loaded FROM, or at its first save.
zero_pipe.py parts LAYERS  the first layers of the stages of models of up to so many layers, for each number of stages
zero_pipe.py same A B   "equal", or the first thing in folder A's files that B's files have otherwise

The Python that runs this script has DeepSpeed; it needs no accelerator.
"""
import glob
import os
import sys

import torch

from zero import KINDS, groups_of, nested, target

LR, WARMUP, END = 1e-3, 4, 20
TIED = "tied_modules.embed."


class Rates:
    """GPT-NeoX's state, with its linear decay."""
    def __init__(self, optimizer):
        self.optimizer, self.count = optimizer, 0
        self.step(0)

    def rate(self):
        if self.count <= WARMUP:
            return LR * max(1, self.count) / WARMUP
        return LR * (1 - (self.count - WARMUP) / (END - WARMUP))

    def step(self, count=None):
        self.count = self.count + 1 if count is None else count
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()

    def get_last_lr(self):
        return [self.rate()]

    def state_dict(self):
        return {"start_lr": LR, "warmup_iter": float(WARMUP), "num_iters": self.count, "decay_style": "linear",
                "end_iter": END, "min_lr": 0.0}

    def load_state_dict(self, state):
        self.step(state["num_iters"])
        assert state == self.state_dict(), state


class Layer(torch.nn.Module):
    """Adds its parameters' distance from their targets to what the layer before gave."""
    def __init__(self, number, parameters, rank, shift):
        super().__init__()
        self.number, self.rank, self.shift = number, rank, shift
        buffer = parameters.pop("attention.rotary_emb.inv_freq", None)
        for name, child in nested(parameters).named_children():
            self.add_module(name, child)
        if buffer is not None:
            self.attention.rotary_emb = torch.nn.Module()
            self.attention.rotary_emb.register_buffer("inv_freq", buffer)

    def forward(self, x):
        for name, w in self.named_parameters():
            x = x + ((w.float() - target(f"{self.number}.{name}", w, self.rank) - self.shift) ** 2).mean()
        return x


    def again(self, x):
        """The other end of tied weights."""
        w = self.word_embeddings.weight
        return x + ((w.float() - target("again", w, self.rank) - self.shift) ** 2).mean()


# DeepSpeed divides layers by these names, which are GPT-NeoX's.
class EmbeddingPipe(Layer):
    pass


class ParallelTransformerLayerPipe(Layer):
    pass


class NormPipe(Layer):
    pass


class ParallelLinearPipe(Layer):
    pass


def _pre_transformer_block(x):
    return x


def _post_transformer_block(x):
    return x


def specs_of(layers, rank, shift):
    """GPT-NeoX's list of layers."""
    from deepspeed.pipe import LayerSpec, TiedLayerSpec
    norm = max(number for number, layer in layers.items() if "norm.scale" in layer)
    classes = {0: EmbeddingPipe, norm: NormPipe, norm + 1: ParallelLinearPipe}
    specs = [LayerSpec(classes.get(number, ParallelTransformerLayerPipe), number, layer, rank, shift)
             for number, layer in sorted(layers.items())]
    specs.insert(1, _pre_transformer_block)
    specs.insert(norm - 1, _post_transformer_block)
    if norm + 1 not in layers:
        def tied(forward):
            return TiedLayerSpec("embed", EmbeddingPipe, 0, dict(layers[0]), rank, shift, forward_fn=forward,
                                 tied_weight_attr="word_embeddings.weight")
        specs = [tied(None), *specs[1:], tied(EmbeddingPipe.again)]
    return specs


def place_of(name):
    """A parameter's layer, and its name in the layer."""
    if name.startswith(TIED):
        return 0, name.removeprefix(TIED)
    number, rest = name.split(".", 1)
    return int(number), rest


def layers_of(out, rank):
    """A rank's parameters by layer, in bfloat16, and the buffers that Llemma's branch saves."""
    found = {}
    for path in sorted(glob.glob(f"{out}/neox/global_step2/layer_*-model_{rank:02d}-model_states.pt")):
        layer = torch.load(path, weights_only=True)
        found[int(os.path.basename(path)[6:8])] = {
            n: w.bfloat16() for n, w in layer.items() if "inv_freq" not in n or "mlp.w1.weight" in layer}
    return found


def write_state(out, engine, rank):
    """What the optimizer has, as models of GPT-NeoX."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    engine.optimizer._hp_optimizer_states_linked = False  # 0.19.8 links the moments after a step only
    engine.optimizer._lazy_init_hp_params_optimizer_state()
    for kind in KINDS:
        layers = {}
        for name, w in engine.module.named_parameters():
            number, rest = place_of(name)
            value = safe_get_full_fp32_param(w) if kind == "weight" else safe_get_full_optimizer_state(w, kind)
            layers.setdefault(number, {})[rest] = value.clone()
        if not engine.is_first_stage():
            layers.pop(0, None)  # the other end of tied weights
        if engine.grid.get_data_parallel_rank() == 0:
            folder = f"{out}/state-{kind}/global_step2"
            os.makedirs(folder, exist_ok=True)
            for number, layer in layers.items():
                torch.save(layer, f"{folder}/layer_{number:02d}-model_{rank:02d}-model_states.pt")
            torch.save({"module": None}, f"{folder}/mp_rank_{rank:02d}_model_states.pt")


def run(process, out, tp, dp, pp, steps, accumulation, start):
    os.environ.update(RANK=str(process), LOCAL_RANK=str(process), WORLD_SIZE=str(tp * dp * pp), DS_ACCELERATOR="cpu",
                      OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    import deepspeed
    from deepspeed.pipe import PipelineModule
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, rank=process,
                               init_method=f"file://{out}/rendezvous", world_size=tp * dp * pp)
    t, d = process % tp, process // tp % dp
    model = PipelineModule(specs_of(layers_of(out, t), t, d), loss_fn=lambda x, _: x.mean(),
                           topology=PipeModelDataParallelTopology(num_pp=pp, num_mp=tp, num_dp=dp),
                           partition_method="type:transformer|mlp")
    parameters = {name: w for name, w in model.named_parameters()}
    for w in parameters.values():
        w.model_parallel = w.dim() > 1
    groups = [{"name": name, "params": [parameters[n] for n in names], "weight_decay": decay}
              for name, names, decay in groups_of(parameters) if names]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95))
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=optimizer, lr_scheduler=Rates(optimizer),
        config={"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
                "data_types": {"grad_accum_dtype": accumulation},
                # Parts of activations would need a collective that gloo lacks.
                "pipeline": {"pipe_partitioned": False, "grad_partitioned": False},
                "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True})
    done = 0
    if start.startswith("weights:"):
        for w in parameters.values():
            w.data.zero_()
        path, _ = engine.load_checkpoint(start.removeprefix("weights:"), load_optimizer_states=False,
                                         load_lr_scheduler_states=False, load_module_only=True)
        assert path
        start = ""
    if start:
        path, state = engine.load_checkpoint(start)
        done = state["iteration"]
        assert path and engine.global_steps == done, (path, done, engine.global_steps)
        write_state(out, engine, t)
    batch = (torch.zeros(1, 1), torch.zeros(1, 1))
    for count in map(int, steps.split("+")):
        for _ in range(count):
            engine.train_batch(iter([batch] * 2))
        done += count
        if not start:
            write_state(out, engine, t)
            start = "here"
        engine.save_checkpoint(f"{out}/trained", tag=f"global_step{done}", client_state={"iteration": done})
    torch.distributed.barrier()


def train(out, tp, dp, pp, steps, accumulation, start=""):
    tp, dp, pp = int(tp), int(dp), int(pp)
    if os.path.exists(f"{out}/rendezvous"):
        os.remove(f"{out}/rendezvous")
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed  # once, and not in each process
    torch.multiprocessing.start_processes(run, (out, tp, dp, pp, steps, accumulation, start), nprocs=tp * dp * pp,
                                          start_method="fork")
    print(sorted(os.path.basename(name) for name in glob.glob(f"{out}/trained/*/*optim_states.pt")))


def parts(layers):
    from deepspeed.runtime.utils import partition_balanced
    weights = [[0] + [1] * (n + 2) + [0, 0] for n in range(int(layers) + 1)]
    print(*(",".join(str(int(i)) for i in partition_balanced(weights[n], count))
            for n in range(1, len(weights)) for count in range(1, n + 1)))


def same(a, b):
    names = sorted(os.listdir(a))
    if names != sorted(os.listdir(b)):
        return print("other files", set(names) ^ set(os.listdir(b)))
    for name in names:
        one, other = (torch.load(f"{folder}/{name}", weights_only=False) for folder in (a, b))
        for difference in differences(one, other, name):
            return print(difference)
    print("equal")


def differences(a, b, where):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a:
            if key == "attention.rotary_emb.inv_freq":
                continue  # foreign.py has none of a model
            if key not in b:
                yield f"{where}: {key} is missing"
            else:
                yield from differences(a[key], b[key], f"{where}: {key}")
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for i, (one, other) in enumerate(zip(a, b)):
            yield from differences(one, other, f"{where}: {i}")
    elif torch.is_tensor(a) and torch.is_tensor(b):
        if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a, b):
            yield f"{where}: {a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)}"
    elif type(a) is type(b) and type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__"):
        yield from differences(vars(a), vars(b), where)
    elif type(a) is not type(b) or a != b:
        yield f"{where}: {a} and {b}"


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
