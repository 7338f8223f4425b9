#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether two builds of Hearth train to the same bits, for every kind of model and layout: before and after a change.

    .deps/oracle/bin/python bench/same_bits.py OTHER/bin [--steps 200] [--only NAME]

Each case trains with both builds from the same data. Losses and gradient norms of all steps must be equal, and so must
the checksums of the last checkpoint, and what `hearth plan` says of memory, traffic and FLOPs. Then this build goes on
from the other's checkpoint, and must have the bits of a run that went on by itself. Needs NumPy.
Exit code 1 if anything differs.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "build/release/bin")
SHAPE = {"model.dim": 64, "model.n_layers": 4, "model.n_heads": 4, "model.n_kv_heads": 2, "training.seq_len": 64,
         "training.local_batch_size": 2, "training.global_batch_size": 8, "checkpoint.interval": 0,
         "lr_scheduler.warmup_steps": 10, "memory.loss_chunk_tokens": 100,
         "numerics.reproducible": "true"}
CAUSAL = {"data.path": "text"}
MASKED = {"data.path": "text", "objective.kind": "masked_lm", "objective.mask_id": 5}
SPIKES = {"data.path": "spikes", "objective.kind": "spike_lm"}
BF16 = {"training.mixed_precision_param": "bfloat16"}
DOCUMENTS = {"model.attention_scope": "document"}
QWEN = {"model.qkv_bias": "true", "model.qk_norm": "true", "model.head_dim": 32, "model.rope_pairs": "halves"}
OLMO = {"model.norm_type": "np_layernorm", "model.enable_weight_tying": "true"}


def ranks(count, **keys):
    return {"ranks": count, **{f"parallelism.{key}": value for key, value in keys.items()}}


LAYOUTS = {
    "1 rank": {},
    "2 ranks": ranks(2, data_parallel_shard_degree=2, zero_stage=3),
    "4 ranks": ranks(4, data_parallel_shard_degree=2, data_parallel_replicate_degree=2),
    "tp 2": ranks(2, tensor_parallel_degree=2),
    "cp 2": ranks(2, context_parallel_degree=2),
    "cp 4": ranks(4, context_parallel_degree=4),
    "pp 2": ranks(2, pipeline_parallel_degree=2, pipeline_parallel_schedule="InterleavedZeroBubble"),
    "tp 2, pp 2": ranks(4, tensor_parallel_degree=2, pipeline_parallel_degree=2),
}
CASES = {f"{objective} {dtype}, {layout}": {**keys, **precision, **LAYOUTS[layout]}
         for objective, keys in (("causal", CAUSAL), ("masked", MASKED), ("spikes", SPIKES))
         for dtype, precision in (("float32", {}), ("bfloat16", BF16)) for layout in LAYOUTS}
for level in ("norms", "attention", "block"):
    CASES[f"recompute {level}"] = {**CAUSAL, "memory.recompute": level}
    CASES[f"recompute {level}, documents, wide heads with norms and biases, bfloat16"] = {
        **CAUSAL, **DOCUMENTS, **QWEN, **BF16, "memory.recompute": level}
CASES["norms without weights, tied"] = {**CAUSAL, **OLMO}
CASES["norms without weights, tied, pp 2"] = {**CAUSAL, **OLMO, **LAYOUTS["pp 2"]}
CASES["wide heads with norms and biases, tp 2"] = {**CAUSAL, **QWEN, **LAYOUTS["tp 2"]}
CASES["layernorm, documents, cp 2, recompute attention"] = {
    **CAUSAL, **DOCUMENTS, **LAYOUTS["cp 2"], "model.norm_type": "layernorm", "memory.recompute": "attention"}


def hearth(folder, words):
    done = subprocess.run([os.path.join(folder, "hearth"), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{folder}: hearth {' '.join(words)}\n{done.stderr}")
    return done.stdout


def make_data(program, folder):
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 8))) for _ in range(2000)]
    for name in ("text", "counts"):
        os.makedirs(os.path.join(folder, "raw", name))
    for i in range(40):
        with open(os.path.join(folder, "raw", "text", f"{i}.txt"), "w", encoding="utf-8") as file:
            file.write(" ".join(rng.choices(words, k=1000)))
    counts = numpy.random.default_rng(1)
    with open(os.path.join(folder, "raw", "counts", "metadata.jsonl"), "w", encoding="utf-8") as file:
        for i in range(8):
            array = counts.poisson(0.5, (16, 500)).astype("uint8")
            numpy.save(os.path.join(folder, "raw", "counts", f"{i}.npy"), array)
            names = {key: f"{i}" for key in ("subject_id", "session_id", "segment_id", "source_dataset")}
            file.write(json.dumps({"file_name": f"{i}.npy", **names}) + "\n")
    hearth(program, ["data", "build", "--out", f"{folder}/text", f"{folder}/raw/text"])
    hearth(program, ["data", "build", "--out", f"{folder}/spikes", "--tokenizer", "spikes", f"{folder}/raw/counts"])


def words_of(folder, run, keys, steps):
    words = []
    own = {"training.threads": keys.get("ranks", 1), "job.dump_folder": run, "training.steps": steps}
    for key, value in {**SHAPE, **keys, **own}.items():
        if key != "ranks":
            words += ["--set", f"{key}={folder}/{value}" if key == "data.path" else f"{key}={value}"]
    return [f"{folder}/run.toml", *words]


def train(program, folder, run, keys, steps):
    words = ["train", *words_of(folder, run, keys, steps)]
    if keys.get("ranks", 1) > 1:
        words += ["--ranks", str(keys["ranks"])]
    hearth(program, words)
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    losses = [(r["step"], r["loss"], r["grad_norm"]) for r in records if "loss" in r]
    with open(os.path.join(run, "checkpoints", f"step-{steps:08}", "hearth.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    items = json.dumps(manifest.get("items", manifest.get("files", manifest)), sort_keys=True)
    return losses, items


def plan(program, folder, keys, steps):
    said = json.loads(hearth(program, ["plan", "--json", *words_of(folder, f"{folder}/none", keys, steps)]))
    return {key: said.get(key) for key in ("model", "compute", "memory", "traffic", "pipeline_bubble")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", help="the bin folder of the other build")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--this", default=BIN, help="the bin folder of this build")
    options = parser.parse_args()
    this, other, wrong = options.this, options.other, 0
    with tempfile.TemporaryDirectory() as folder:
        make_data(this, folder)
        open(f"{folder}/run.toml", "w", encoding="utf-8").close()
        for name, keys in CASES.items():
            if options.only not in name:
                continue
            before, items_before = train(other, folder, f"{folder}/before", keys, options.steps)
            after, items_after = train(this, folder, f"{folder}/after", keys, options.steps)
            more_before, _ = train(this, folder, f"{folder}/before", keys, options.steps + 5)
            more_after, _ = train(this, folder, f"{folder}/after", keys, options.steps + 5)
            plans = [plan(program, folder, keys, options.steps) for program in (other, this)]
            same = {"losses": before == after, "checkpoint": items_before == items_after,
                    "resumed": more_before == more_after, "plan": plans[0] == plans[1]}
            differs = [what for what, equal in same.items() if not equal]
            wrong += bool(differs)
            print(f"{name}: {'DIFFERENT ' + ', '.join(differs) if differs else 'same'}"
                  f" ({len(after)} steps, last loss {after[-1][1]:.4f})", flush=True)
            shutil.rmtree(f"{folder}/before")
            shutil.rmtree(f"{folder}/after")
    print(f"{wrong} cases differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
