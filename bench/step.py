# SPDX-License-Identifier: Apache-2.0
"""A training step of Hearth compared with the same model on PyTorch, in alternation: what bench/results/ quotes.

    .deps/oracle/bin/python bench/step.py [--rounds 9] [--shape small|medium|all] [--dtype float32|bfloat16]
        [--table eager|compiled|torchtitan|whole|all]
    .deps/oracle/bin/python bench/step.py --device cuda [--rounds 9] [--accumulate N]
        [--table eager|compiled|torchtitan|float8|graph|whole|all]
        [--shape llama_1b_16k|llama3_8b_slice|llama3_1b|llama3_3b|all]
    .deps/oracle/bin/python bench/step.py --against OTHER/bin/hearth [--shape small]   two builds, without PyTorch

Every program is a process. It takes two steps to warm up, then one step in each round; the order of programs rotates.
So a machine whose speed changes within minutes is the same for all of a round. PyTorch runs as installed, and with
glibc's malloc told to keep what is freed, because a third of its time on a CPU is page faults. transformers runs eager,
then compiled by layer, beside torchtitan: all of them at once would not fit the memory. Before every step the rate of
a float32 GEMM is measured. Ratios are medians over the rounds of the ratio within a round; timings of different runs
do not compare.

A program whose attention gets a mask or repeated keys gets no figure (bench/attention_check.py). --table whole is what
most people write, torch.compile(model): its row says whether attention has a mask, and no page quotes it.

On a GPU everything computes in bfloat16 from float32 masters. Hearth also runs in float8 and from a CUDA graph, and
the rate is that of a bfloat16 GEMM of 8192^3. Two programs run at a time, Hearth and another, because their memory
adds up. Memory is then the peak of what tensors take there.

Needs build/release/bin/hearth, or --hearth PATH, and the oracle environment (scripts/setup.sh --oracle). torchtitan is
found in .deps/torchtitan, or --torchtitan DIR (bench/torchtitan_step.py says how to install it). "start" is the time
from exec to the end of the first step, less a median step.
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

from torchtitan_step import FOLDER, INSTALL, found_in

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


WHOLE = "compiled whole, as most people write it"


def hearth_command(arguments, shape, options):
    command = [options.hearth, "bench", "step", "--json", *arguments]
    if options.dtype != "float32" and options.device == "cpu":
        command += ["--set", f"training.mixed_precision_param={options.dtype}"]
    if options.accumulate > 1:
        command += ["--set", f"training.global_batch_size={options.accumulate * shape['local-batch-size']}"]
    return command


def tables(shape, options):
    """Name of a table: {name of a program in it: (command, environment)}."""
    arguments = [f"--{key}={value}" for key, value in shape.items()]
    # One step more than the rounds. A program measures and checks itself after its last step, which must not disturb
    # the last round: Program.finish gives it that turn when all rounds are over.
    arguments += [f"--steps={options.rounds + 1}", "--warmup=2", "--turns", f"--device={options.device}"]
    hearth = hearth_command(arguments, shape, options)
    if options.against:
        return {"builds": {"Hearth": (hearth, {}), options.against: ([options.against] + hearth[1:], {})}}

    def python(script, *more):
        command = [sys.executable, os.path.join(ROOT, "bench", script), f"--dtype={options.dtype}", *arguments]
        return [*command, f"--accumulate={options.accumulate}", *more]

    eager, compiled, whole = (python("pytorch_step.py", f"--compile={how}") for how in ("eager", "layers", "whole"))
    torchtitan = python("torchtitan_step.py", f"--torchtitan={options.torchtitan}")
    if options.device == "cuda":
        float8 = hearth + ["--set", "numerics.fp8=true"]
        graph = hearth + ["--set", "training.cuda_graph=true"]
        return {"eager": {"Hearth": (hearth, {}), "eager": (eager, {})},
                "compiled": {"Hearth": (hearth, {}), "compiled by layer": (compiled, {})},
                "torchtitan": {"Hearth": (hearth, {}), "torchtitan": (torchtitan, {})},
                "float8": {"Hearth": (float8, {}), "bfloat16": (hearth, {})},
                "graph": {"Hearth": (graph, {}), "without a graph": (hearth, {})},
                "whole": {"Hearth": (hearth, {}), WHOLE: (whole, {})}}
    beside = {"torchtitan, malloc tuned": (torchtitan, KEEP_FREED)}
    return {"eager": {"Hearth": (hearth, {}), "eager": (eager, {}), "eager, malloc tuned": (eager, KEEP_FREED)},
            "compiled": {"Hearth": (hearth, {}), "compiled by layer": (compiled, {}),
                         "compiled by layer, malloc tuned": (compiled, KEEP_FREED),
                         **(beside if options.has_torchtitan else {})},
            "torchtitan": {"Hearth": (hearth, {}), "torchtitan": (torchtitan, {}), **beside},
            "whole": {"Hearth": (hearth, {}), WHOLE: (whole, {}), f"{WHOLE}, malloc tuned": (whole, KEEP_FREED)}}


def tables_wanted(options):
    """What --table all has: no table that repeats another, and no program that nobody should quote."""
    if options.table != "all":
        return (options.table,)
    if options.device == "cpu":
        return ("eager", "compiled", "builds")
    return ("eager", "compiled", *(("torchtitan",) if options.has_torchtitan else ()), "float8", "graph", "builds")


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
        self.first_step_s = None

    def warm_up(self):
        self.step()
        self.first_step_s = time.time() - self.started
        self.step()

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.fail()
        return float(line)

    def end(self):
        """Ends it if another one failed: without its input it would take all its steps at once."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def fail(self):
        sys.exit(f"error: {' '.join(self.process.args)}: status {self.process.wait()}")

    def finish(self):
        """What the program says at its end. One that refuses its figure ends with another status."""
        self.step()
        said, status = self.process.stdout.read(), self.process.wait()
        if status:
            self.fail()
        return json.loads(said.strip().splitlines()[-1])


def table(shape, options, commands):
    programs = {}
    try:
        for name, command in commands.items():
            programs[name] = Program(*command)
            programs[name].warm_up()
        measure(shape, options, programs)
    finally:
        for program in programs.values():
            program.end()


def measure(shape, options, programs):
    names = list(programs)
    steps, rates = {name: [] for name in names}, {name: [] for name in names}
    for i in range(options.rounds):
        for name in names[i % len(names):] + names[:i % len(names)]:
            rates[name].append(gemm_flops(options.device))
            steps[name].append(programs[name].step())
    tokens = options.accumulate * shape["local-batch-size"] * shape["seq-len"]
    flops, ends = flops_per_token(shape), {name: programs[name].finish() for name in names}
    print("\n| program | tokens/s | Hearth is | of the GEMM rate | peak memory | start | page faults a step |\n" + "|---" * 7 + "|")
    for name in names:
        end = ends[name]
        median_s = statistics.median(steps[name])
        ratio = statistics.median(theirs / ours for theirs, ours in zip(steps[name], steps["Hearth"]))
        share = statistics.median(tokens * flops / s / rate for s, rate in zip(steps[name], rates[name]))
        called = name + (" (attention has a mask)" if end.get("attention_mask") else "")
        print(f"| {called} | {tokens / median_s:.0f} | {ratio:.2f}x | {100 * share:.0f} % | {end['memory_bytes'] / 2**30:.2f} GiB | "
              f"{programs[name].first_step_s - median_s:.1f} s | {end['page_faults_per_step']:.0f} |")
    all_rates = [rate * 1e-9 for of_one in rates.values() for rate in of_one]
    for name in names:
        if "attention_kernels" in ends[name]:
            print(f"{name}: {ends[name]['program']}; attention by {', '.join(ends[name]['attention_kernels'])}; loss "
                  f"{ends[name]['loss']:.6g}, without chunks and uncompiled {ends[name]['loss_unchunked']:.6g}")
    print(f"GEMM: {min(all_rates):.0f} to {max(all_rates):.0f} GFLOP/s, median {statistics.median(all_rates):.0f}",
          flush=True)


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--shape", choices=(*SHAPES, *GPU_SHAPES, "all"), default="all")
    parser.add_argument("--table", default="all",
                        choices=("eager", "compiled", "torchtitan", "whole", "float8", "graph", "all"))
    parser.add_argument("--eager-only", action="store_const", dest="table", const="eager",
                        help="without torch.compile, which takes most of the time")
    parser.add_argument("--hearth", default=os.path.join(ROOT, "build/release/bin/hearth"))
    parser.add_argument("--against", metavar="PATH",
                        help="another build's hearth: one table of the two builds, without PyTorch")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches a step")
    parser.add_argument("--torchtitan", metavar="DIR", default=FOLDER, help="the folder with its package")
    options = parser.parse_args(arguments)
    options.has_torchtitan = found_in(options.torchtitan)[0] is not None
    shapes = SHAPES if options.device == "cpu" else GPU_SHAPES
    if options.against and options.table != "all":
        parser.error("--against has one table: leave out --table")
    if options.shape not in (*shapes, "all"):
        parser.error(f"--shape {options.shape} is none of --device {options.device}'s: {', '.join(shapes)}")
    if options.device == "cpu" and options.table in ("float8", "graph"):
        parser.error(f"--table {options.table} is measured on a GPU only")
    if options.table == "torchtitan" and not options.has_torchtitan:
        parser.error(f"torchtitan is not here: {INSTALL}")
    if options.device == "cuda":
        options.dtype = "bfloat16"
    return options, shapes


def main(arguments=None):
    options, shapes = parsed(arguments)
    if options.device == "cuda":
        print(torch.cuda.get_device_name())
    if options.table == "all" and not options.against and not options.has_torchtitan:
        print(f"torchtitan is not here, and is left out: {INSTALL}")
    print(f"PyTorch {torch.__version__}, transformers {transformers.__version__}, {platform.platform()}, "
          f"{time.strftime('%Y-%m-%d')}")
    for name in shapes if options.shape == "all" else (options.shape,):
        print(f"\n{name}: {shapes[name]}, {options.dtype}, {torch.get_num_threads()} threads", flush=True)
        for table_name, commands in tables(shapes[name], options).items():
            if table_name in tables_wanted(options):
                table(shapes[name], options, commands)


if __name__ == "__main__":
    main()
