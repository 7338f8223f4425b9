#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes beside one rank with as many threads, in alternation; and how fast ranks talk to each other.

    python3 bench/distributed.py [--dim 256] [--rounds 5] [--ranks 2] [--pytorch]

Both runs train on the same made-up text, with the same global batch: one rank in twice as many micro-batches. The
figure of a run is the median of its steps' tokens per second, without the first five. With --pytorch each round also
times DDP and FSDP2 over gloo (bench/pytorch_ranks.py): the same shape, ranks and threads.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile

HEARTH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build/release/bin/hearth")


def hearth(*words):
    return subprocess.run([HEARTH, *map(str, words)], stdout=subprocess.PIPE, check=True, text=True).stdout


def run_file(folder, dim):
    text, data, toml = (os.path.join(folder, name) for name in ("text.txt", "data", "run.toml"))
    draw = random.Random(0)
    with open(text, "w", encoding="utf-8") as file:
        for _ in range(2000):
            file.write(" ".join("".join(draw.choices("abcdefgh", k=5)) for _ in range(100)) + "\n\n")
    hearth("data", "build", text, "--out", data)
    with open(toml, "w", encoding="utf-8") as file:
        file.write(f'[data]\npath = "{data}"\n[model]\ndim = {dim}\nn_layers = 4\nn_heads = {dim // 64}\n'
                   f"hidden_dim = {dim * 11 // 4}\n"
                   "[training]\nseq_len = 256\nlocal_batch_size = 4\nsteps = 25\n[checkpoint]\ninterval = 0\n")
    return toml


def tokens_per_second(folder, toml, ranks, global_batch, stage=1):
    out = tempfile.mkdtemp(dir=folder)
    hearth("train", toml, "--ranks", ranks, "--set", f"job.dump_folder={out}",
           "--set", f"training.global_batch_size={global_batch}", "--set", f"parallelism.zero_stage={stage}")
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        steps = [json.loads(line) for line in file]
    return statistics.median(step["tokens_per_second"] for step in steps[5:])


def pytorch_tokens_per_second(ranks, dim, sharding):
    python = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".deps/oracle/bin/python")
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pytorch_ranks.py")
    words = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, program,
             "--sharding", sharding, "--dim", dim, "--hidden-dim", dim * 11 // 4, "--n-layers", 4,
             "--n-heads", dim // 64,
             "--vocab-size", 257, "--seq-len", 256, "--local-batch-size", 4, "--steps", 20, "--warmup", 5]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, check=True, text=True, env=environment)
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pytorch", action="store_true", help="also PyTorch's DDP and FSDP2 over gloo")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        toml = run_file(folder, options.dim)
        ratios = {stage: [] for stage in (1, 2, 3)}
        beside = {sharding: [] for sharding in ("ddp", "fsdp2") if options.pytorch}  # (ours, theirs) of each round
        for _ in range(options.rounds):
            one = tokens_per_second(folder, toml, 1, 4 * options.ranks)
            line = f"1 rank {one:8.0f} tokens/s   {options.ranks} ranks:"
            for stage, of_stage in ratios.items():
                several = tokens_per_second(folder, toml, options.ranks, 4 * options.ranks, stage)
                first = several if stage == 1 else first
                of_stage.append(several / one)
                line += f"   ZeRO-{stage} {several:8.0f}, ratio {of_stage[-1]:.3f}"
            for sharding, of_sharding in beside.items():
                theirs = pytorch_tokens_per_second(options.ranks, options.dim, sharding)
                ours = several if sharding == "fsdp2" else first
                of_sharding.append((ours, theirs))
                line += f"   {sharding} {theirs:8.0f}, ours is {ours / theirs:.2f} times as fast"
            print(line, flush=True)
        for stage, of_stage in ratios.items():
            median = statistics.median(of_stage)
            print(f"ZeRO-{stage}: median ratio {median:.3f}, from {min(of_stage):.3f} to {max(of_stage):.3f}")
        for sharding, of_sharding in beside.items():
            best = [max(column) for column in zip(*of_sharding)]
            print(f"beside {sharding} (ours: {'ZeRO-3' if sharding == 'fsdp2' else 'ZeRO-1'}): median "
                  f"{statistics.median(ours / theirs for ours, theirs in of_sharding):.2f}, by the best round of each "
                  f"{best[0] / best[1]:.2f}")
    for ranks in (2, 4, 64):
        print(hearth("bench", "comm", "--ranks", ranks))


if __name__ == "__main__":
    main()
