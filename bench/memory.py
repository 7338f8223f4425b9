#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors as `hearth plan` counts them beside what a process holds while it trains (Linux).

    python3 bench/memory.py

Measured is the largest anonymous memory of `hearth-train bench step`, sampled every 20 ms, less that of a model of some
thousand parameters: what LibTorch and the threads take for themselves.
"""
import json
import os
import re
import subprocess
import tempfile
import time

BIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build/release/bin")
TINY = "--dim=64 --n-layers=1 --n-heads=2 --vocab-size=300 --seq-len=64 --local-batch-size=1".split()
SHAPE = {"dim": 512, "n_layers": 8, "n_heads": 8, "n_kv_heads": 4, "vocab_size": 32000}
RUNS = [("float32", 4, []),
        ("bfloat16", 4, ["training.mixed_precision_param=bfloat16"]),
        ("float32, recomputed as 1.25 GiB allow", 4, ["memory.recompute=auto", "memory.limit=1.25GiB"]),
        ("float32, blocks recomputed", 16, ["memory.recompute=block"])]


def measured(arguments):
    """Bytes, and the line on memory that the program prints."""
    train = [os.path.join(BIN, "hearth-train"), "bench", "step", "--steps=3", "--warmup=2", *arguments]
    process, most = subprocess.Popen(train, stdout=subprocess.PIPE, text=True), 0
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as status:
            found = re.search(r"RssAnon:\s+(\d+) kB", status.read())
        most = max(most, int(found[1]) * 1024 if found else 0)
        time.sleep(0.02)
    return most, re.search(r"memory +(.*) at peak", process.stdout.read())[1]


def planned(run_toml, sets):
    plan = [os.path.join(BIN, "hearth"), "plan", run_toml, "--json", "--gemm-tflops=1", *sets]
    return json.loads(subprocess.run(plan, capture_output=True, text=True, check=True).stdout)["memory"]["total_bytes"]


def main():
    base, _ = measured(TINY)
    print(f"{'8 layers of width 512, 1,024 tokens':48} planned  measured  ratio  RSS")
    for name, batch, keys in RUNS:
        sets = [f"--set={key}" for key in keys]
        model = "".join(f"{key} = {value}\n" for key, value in SHAPE.items())
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as run:
            run.write(f"[model]\n{model}[training]\nseq_len = 1024\nlocal_batch_size = {batch}\nsteps = 10\n")
            run.flush()
            plan = planned(run.name, sets)
        shape = [f"--{key.replace('_', '-')}={value}" for key, value in SHAPE.items()]
        most, rss = measured([*shape, "--seq-len=1024", f"--local-batch-size={batch}", *sets])
        held = most - base
        print(f"{f'{name}, batch {batch}':48} {plan / 2**20:6.0f}M  {held / 2**20:6.0f}M   {held / plan:.3f}  {rss}")


if __name__ == "__main__":
    main()
