"""A training step of Hearth compared with LlamaForCausalLM on PyTorch, in alternation: what bench/results/ quotes.

    .deps/oracle/bin/python bench/step.py [--rounds 9] [--shape small|medium|all] [--dtype float32|bfloat16]
        [--eager-only]
    .deps/oracle/bin/python bench/step.py --device cuda [--rounds 9] [--table eager|compiled|float8|graph|all]
        [--shape llama_1b_16k|llama3_8b_slice|llama3_1b|llama3_3b|all]
    .deps/oracle/bin/python bench/step.py --against OTHER/bin/hearth [--shape small]   two builds, without PyTorch

Every program is a process. It takes two steps to warm up, then one step in each round; the order of programs rotates.
So a machine whose speed changes within minutes is the same for all of a round. PyTorch runs as installed, and with
glibc's malloc told to keep what is freed, because a third of its time on a CPU is page faults. It runs eager, then
compiled: all of them at once would not fit the memory. Before every step the rate of a float32 GEMM is measured.
Ratios are medians over the rounds of the ratio within a round; timings of different runs do not compare.

On a GPU everything computes in bfloat16 from float32 masters. Hearth also runs in float8 and from a CUDA graph, and
the rate is that of a bfloat16 GEMM of 8192^3. Two programs run at a time, Hearth and another, because their memory
adds up. Memory is then the peak of what tensors take there.

Needs build/release/bin/hearth, or --hearth PATH, and the oracle environment (scripts/setup.sh --oracle). "start" is
the time from exec to the end of the first step, less a median step.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import torch
import transformers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHAPES = {
    "small": {"dim": 512, "n-layers": 8, "n-heads": 8, "n-kv-heads": 4, "hidden-dim": 1408, "vocab-size": 32000,
              "seq-len": 1024, "local-batch-size": 4},
    "medium": {"dim": 768, "n-layers": 12, "n-heads": 12, "n-kv-heads": 12, "hidden-dim": 2048, "vocab-size": 32000,
               "seq-len": 1024, "local-batch-size": 2},
}
# Causal, where models on a GPU differ in what is asked of attention alone: a 1B model of the masked-LM seed at 16k, a
# slice of four layers of Llama 3 8B, and Llama 3.2.
GPU_SHAPES = {
    "llama_1b_16k": {"dim": 2048, "n-layers": 16, "n-heads": 16, "n-kv-heads": 16, "hidden-dim": 5632,
                     "vocab-size": 32000, "seq-len": 16384, "local-batch-size": 1},
    "llama3_8b_slice": {"dim": 4096, "n-layers": 4, "n-heads": 32, "n-kv-heads": 8, "hidden-dim": 14336,
                        "vocab-size": 128256, "seq-len": 8192, "local-batch-size": 1},
    "llama3_1b": {"dim": 2048, "n-layers": 16, "n-heads": 32, "n-kv-heads": 8, "hidden-dim": 8192, "vocab-size": 128256,
                  "seq-len": 8192, "local-batch-size": 1},
    "llama3_3b": {"dim": 3072, "n-layers": 28, "n-heads": 24, "n-kv-heads": 8, "hidden-dim": 8192, "vocab-size": 128256,
                  "seq-len": 8192, "local-batch-size": 1},
}
KEEP_FREED = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(64 << 30),
              "MALLOC_TOP_PAD_": str(64 << 20)}


def tables(shape, options):
    """Name of a table: {name of a program in it: (command, environment)}."""
    arguments = [f"--{key}={value}" for key, value in shape.items()]
    arguments += [f"--steps={options.rounds}", "--warmup=2", "--turns", f"--device={options.device}"]
    hearth = [options.hearth, "bench", "step", "--json"] + arguments
    if options.dtype != "float32" and options.device == "cpu":
        hearth += ["--set", f"training.mixed_precision_param={options.dtype}"]
    if options.against:
        return {"builds": {"Hearth": (hearth, {}), options.against: ([options.against] + hearth[1:], {})}}
    torch_step = [sys.executable, os.path.join(ROOT, "bench/pytorch_step.py"), f"--dtype={options.dtype}"] + arguments
    compiled = torch_step + ["--compile"]
    if options.device == "cuda":
        float8 = hearth + ["--set", "numerics.fp8=true"]
        graph = hearth + ["--set", "training.cuda_graph=true"]
        return {"eager": {"Hearth": (hearth, {}), "eager": (torch_step, {})},
                "compiled": {"Hearth": (hearth, {}), "compiled": (compiled, {})},
                "float8": {"Hearth": (float8, {}), "bfloat16": (hearth, {})},
                "graph": {"Hearth": (graph, {}), "without a graph": (hearth, {})}}
    return {"eager": {"Hearth": (hearth, {}), "eager": (torch_step, {}),
                      "eager, malloc tuned": (torch_step, KEEP_FREED)},
            "compiled": {"Hearth": (hearth, {}), "compiled": (compiled, {}),
                         "compiled, malloc tuned": (compiled, KEEP_FREED)}}


def gemm_flops(device):
    """The best of 12 products: of 1024^3 in float32 on a CPU (0.15 s), of 8192^3 in bfloat16 on a GPU."""
    size, dtype = (1024, torch.float32) if device == "cpu" else (8192, torch.bfloat16)
    a = torch.randn(size, size, dtype=dtype, device=device)
    out = torch.empty_like(a)
    best = float("inf")
    for _ in range(12):
        start = time.perf_counter()
        torch.mm(a, a, out=out)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def flops_per_token(shape):
    """Of the products of forward and backward, causal attention counted as the half that is needed."""
    D, L, H, G, F, V, S = (shape[k] for k in
                           ("dim", "n-layers", "n-heads", "n-kv-heads", "hidden-dim", "vocab-size", "seq-len"))
    K = D // H
    return 6 * (L * (D * (H + 2 * G) * K + H * K * D + 3 * D * F) + D * V) + 6 * L * H * K * S


class Program:
    """A process that takes one step a turn."""

    def __init__(self, command, environment):
        self.started = time.time()
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.step()
        self.first_step_s = time.time() - self.started
        self.step()

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.process.args)}: status {self.process.wait()}")
        return float(line)

    def finish(self):
        result = json.loads(self.process.stdout.read().strip().splitlines()[-1])
        _, _, usage = os.wait4(self.process.pid, 0)
        on_gpu = "--device=cuda" in self.process.args
        return {**result, "peak_bytes": result["memory_bytes"] if on_gpu else usage.ru_maxrss * 1024}


def table(shape, options, commands):
    programs = {name: Program(*command) for name, command in commands.items()}
    names = list(programs)
    steps, rates = {name: [] for name in names}, {name: [] for name in names}
    for i in range(options.rounds):
        for name in names[i % len(names):] + names[:i % len(names)]:
            rates[name].append(gemm_flops(options.device))
            steps[name].append(programs[name].step())
    tokens, flops = shape["local-batch-size"] * shape["seq-len"], flops_per_token(shape)
    print("\n| program | tokens/s | Hearth is | of the GEMM rate | peak memory | start | page faults a step |\n" + "|---" * 7 + "|")
    for name in names:
        end = programs[name].finish()
        median_s = statistics.median(steps[name])
        ratio = statistics.median(theirs / ours for theirs, ours in zip(steps[name], steps["Hearth"]))
        share = statistics.median(tokens * flops / s / rate for s, rate in zip(steps[name], rates[name]))
        print(f"| {name} | {tokens / median_s:.0f} | {ratio:.2f}x | {100 * share:.0f} % | {end['peak_bytes'] / 2**30:.2f} GiB | "
              f"{programs[name].first_step_s - median_s:.1f} s | {end['page_faults_per_step']:.0f} |")
    all_rates = [rate * 1e-9 for of_one in rates.values() for rate in of_one]
    print(f"GEMM: {min(all_rates):.0f} to {max(all_rates):.0f} GFLOP/s, median {statistics.median(all_rates):.0f}",
          flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--shape", choices=(*SHAPES, *GPU_SHAPES, "all"), default="all")
parser.add_argument("--table", choices=("eager", "compiled", "float8", "graph", "all"), default="all")
parser.add_argument("--eager-only", action="store_const", dest="table", const="eager",
                    help="without torch.compile, which takes most of the time")
parser.add_argument("--hearth", default=os.path.join(ROOT, "build/release/bin/hearth"))
parser.add_argument("--against", metavar="PATH",
                    help="another build's hearth: one table of the two builds, without PyTorch")
parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
options = parser.parse_args()
if options.against and options.table != "all":
    parser.error("--against has one table: leave out --table")
shapes = SHAPES
if options.device == "cuda":
    shapes, options.dtype = GPU_SHAPES, "bfloat16"
    print(torch.cuda.get_device_name())
if options.shape != "all" and options.shape not in shapes:
    parser.error(f"--shape {options.shape} is none of --device {options.device}'s: {', '.join(shapes)}")
if options.device == "cpu" and options.table in ("float8", "graph"):
    parser.error(f"--table {options.table} is measured on a GPU only")
print(f"PyTorch {torch.__version__}, transformers {transformers.__version__}, {platform.platform()}, {time.strftime('%Y-%m-%d')}")
for name in shapes if options.shape == "all" else (options.shape,):
    print(f"\n{name}: {shapes[name]}, {options.dtype}, {torch.get_num_threads()} threads", flush=True)
    for table_name, commands in tables(shapes[name], options).items():
        if options.table in (table_name, "all"):
            table(shapes[name], options, commands)
