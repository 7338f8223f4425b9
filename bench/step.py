"""A training step of Hearth beside LlamaForCausalLM on PyTorch, in turns: what bench/results/ quotes.

    .deps/oracle/bin/python bench/step.py [--rounds 3] [--shape small|medium|all] [--dtype float32|bfloat16] [--eager-only]

Each round runs every program once, in a process of its own (2 steps to warm up, then --steps): Hearth; PyTorch eager and
compiled, both as installed and with glibc's malloc told to keep what is freed, because a third of PyTorch's time on a CPU
is page faults. Between any two the rate of a float32 GEMM is measured, which is what a step can be compared with on a
machine whose speed changes. Ratios are medians of the ratios within a round; timings of different runs do not compare.

Needs build/release/bin/hearth and the oracle environment (scripts/setup.sh --oracle). "start" is the time from exec to the
end of the first step, less a median step.
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
KEEP_FREED = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(64 << 30),
              "MALLOC_TOP_PAD_": str(64 << 20)}


def programs(shape, options):
    arguments = [f"--{key}={value}" for key, value in shape.items()]
    arguments += [f"--steps={options.steps}", "--warmup=2"]
    hearth = [os.path.join(ROOT, "build/release/bin/hearth"), "bench", "step", "--json"] + arguments
    if options.dtype != "float32":
        hearth += ["--set", f"training.mixed_precision_param={options.dtype}"]
    torch_step = [sys.executable, os.path.join(ROOT, "bench/pytorch_step.py"), f"--dtype={options.dtype}"] + arguments
    eager = {"Hearth": (hearth, {}), "eager": (torch_step, {}), "eager, malloc tuned": (torch_step, KEEP_FREED)}
    if options.eager_only:
        return eager
    compiled = torch_step + ["--compile"]
    return {**eager, "compiled": (compiled, {}), "compiled, malloc tuned": (compiled, KEEP_FREED)}


def gemm_flops():
    """The best of 20 products of 1024^3 in float32, 0.2 s."""
    a = torch.randn(1024, 1024)
    out = torch.empty_like(a)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        torch.mm(a, a, out=out)
        best = min(best, time.perf_counter() - start)
    return 2 * 1024**3 / best


def flops_per_token(shape):
    """Of the products of forward and backward, causal attention counted as the half that is needed."""
    D, L, H, G, F, V, S = (shape[k] for k in
                           ("dim", "n-layers", "n-heads", "n-kv-heads", "hidden-dim", "vocab-size", "seq-len"))
    K = D // H
    return 6 * (L * (D * (H + 2 * G) * K + H * K * D + 3 * D * F) + D * V) + 6 * L * H * K * S


def run(command, environment):
    before, start = gemm_flops(), time.time()
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, cwd=ROOT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    result = json.loads(output.decode().strip().splitlines()[-1])
    result["peak_bytes"] = usage.ru_maxrss * 1024
    result["start_s"] = result["first_step_end"] - start - result["median_step_s"]
    result["gemm_flops"] = (before + gemm_flops()) / 2
    return result


def table(name, shape, options):
    print(f"\n{name}: {shape}, {options.dtype}, {torch.get_num_threads()} threads", flush=True)
    rounds = []
    for i in range(options.rounds):
        rounds.append({what: run(*program) for what, program in programs(shape, options).items()})
        line = ", ".join(f"{what} {r['tokens_per_second']:.0f}" for what, r in rounds[-1].items())
        print(f"round {i + 1}, tokens/s: {line}", flush=True)

    def median(what, field):
        return statistics.median(field(r, r[what]) for r in rounds)

    print("| program | tokens/s | Hearth is | of the GEMM rate | peak memory | start | page faults a step |\n" + "|---" * 7 + "|")
    for what in rounds[0]:
        speed = median(what, lambda _, x: x["tokens_per_second"])
        ratio = median(what, lambda r, x: r["Hearth"]["tokens_per_second"] / x["tokens_per_second"])
        share = median(what, lambda _, x: x["tokens_per_second"] * flops_per_token(shape) / x["gemm_flops"])
        memory = median(what, lambda _, x: x["peak_bytes"])
        start = median(what, lambda _, x: x["start_s"])
        faults = median(what, lambda _, x: x["page_faults_per_step"])
        print(f"| {what} | {speed:.0f} | {ratio:.2f}x | {100 * share:.0f} % | {memory / 2**30:.2f} GiB | {start:.1f} s | {faults:.0f} |")
    rates = [x["gemm_flops"] * 1e-9 for r in rounds for x in r.values()]
    print(f"GEMM: {min(rates):.0f} to {max(rates):.0f} GFLOP/s, median {statistics.median(rates):.0f}", flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--shape", choices=(*SHAPES, "all"), default="all")
parser.add_argument("--eager-only", action="store_true", help="without torch.compile, which takes most of the time")
parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
options = parser.parse_args()
print(f"PyTorch {torch.__version__}, transformers {transformers.__version__}, {platform.platform()}, {time.strftime('%Y-%m-%d')}")
for name in SHAPES if options.shape == "all" else (options.shape,):
    table(name, SHAPES[name], options)
