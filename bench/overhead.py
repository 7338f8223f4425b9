#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of metrics and profiling, in pairs of trainings that run in alternation (Linux).

    python3 bench/overhead.py [--rounds 10] [--steps 60] [--before HEARTH_TRAIN]

Each pair trains the same model on the same text, once plainly and once with a feature. Two ratios are taken within each
pair: of the processors' time of the whole process, and of the median time of a step, from metrics.jsonl. The table
has their medians and their spread over the rounds. --before names another build's hearth-train, to compare with.
"""
import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "build/release/bin")
TRAIN = os.path.join(BIN, "hearth-train")
SHAPE = ["model.dim=128", "model.n_layers=4", "model.n_heads=4", "training.seq_len=128", "training.local_batch_size=4",
         "checkpoint.interval=0", "training.threads=1"]
BOARD = ["metrics.enable_tensorboard=true", "metrics.log_freq=1"]
TRACE = ["profiling.enable_profiling=true"]


def make_text(folder):
    random.seed(1)
    words = ["".join(random.choices("abcdefghij", k=random.randint(2, 8))) for _ in range(2000)]
    os.makedirs(os.path.join(folder, "text"))
    with open(os.path.join(folder, "text", "a.txt"), "w") as file:
        file.write(" ".join(random.choices(words, k=200_000)))
    subprocess.run([os.path.join(BIN, "hearth"), "data", "build", "--out", os.path.join(folder, "data"),
                    os.path.join(folder, "text")], check=True, capture_output=True)


def measure(folder, program, sets, steps):
    """Seconds of processors of the process, and the median seconds of its steps."""
    run = os.path.join(folder, "run")
    shutil.rmtree(run, ignore_errors=True)
    keys = [f"job.dump_folder={run}", f"data.path={folder}/data", f"training.steps={steps}", *SHAPE, *sets]
    run_file = os.path.join(folder, "run.toml")
    open(run_file, "w").close()
    words = [program, "train", run_file, *(word for key in keys for word in ("--set", key))]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        records = [json.loads(line) for line in file]
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            statistics.median(record["step_s"] for record in records[len(records) // 4:]))


def spread(ratios):
    return f"{statistics.median(ratios):.4f} ({min(ratios):.3f} to {max(ratios):.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--before", metavar="HEARTH_TRAIN")
    options = parser.parse_args()
    last = f"profiling.profile_freq={options.steps}"
    cases = [("nothing: the same twice", TRAIN, []),
             ("TensorBoard, a point each step", TRAIN, BOARD),
             ("profiling on, a trace of the last step", TRAIN, [*TRACE, last]),
             ("a trace of every step", TRAIN, [*TRACE, last, f"profiling.profiler_active={options.steps}"])]
    if options.before:
        cases.insert(1, ("this build, beside the one before", options.before, []))
    print("| with | processors' time | time of a step |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        make_text(folder)
        measure(folder, TRAIN, [], options.steps)  # warms the caches
        for name, program, sets in cases:
            processor, step = [], []
            for number in range(options.rounds):
                sides = [(TRAIN, []), (program, sets)]
                order = 1 if number % 2 == 0 else -1
                results = [measure(folder, *side, options.steps) for side in sides[::order]]
                plain, featured = results[::order]
                if program != TRAIN:
                    plain, featured = featured, plain
                processor.append(featured[0] / plain[0])
                step.append(featured[1] / plain[1])
            print(f"| {name} | {spread(processor)} | {spread(step)} |", flush=True)


if __name__ == "__main__":
    main()
