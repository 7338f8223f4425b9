#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same training twice, by torchtitan's model and by Hearth: their losses, and a picture of both.

    .deps/oracle/bin/python bench/torchtitan_curve.py [--steps 400] [--text FILE] [--picture FILE.svg]

Both begin with the weights that torchtitan draws, and read the same windows in the same order: Hearth's, which
tests/data/order/order_reference.py computes from docs/data_format.md alone. torchtitan's side is its Llama 3 (0.2.2)
with PyTorch's AdamW and clip_grad_norm_, at the rates of Hearth's run (lr_scheduler.rule = "torchtitan"). Its trainer,
which reads Hugging Face's datasets, is left out. Prints one JSON object. Exit code 1 if a loss differs by more than
--tolerance.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import types

import numpy
import torch
import torch.distributed.checkpoint

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "data", "order"))

import order_reference  # noqa: E402
import torchtitan_step  # noqa: E402

HEARTH = os.path.join(ROOT, "build", "release", "bin", "hearth")
SHAPE = types.SimpleNamespace(dim=192, n_layers=4, n_heads=6, n_kv_heads=3, hidden_dim=512, vocab_size=258,
                              seq_len=256, device="cpu")
BATCH, SEED, LR, WARMUP, DECAY = 8, 7, 2e-3, 20, 0.1
RUN = f"""[job]
dump_folder = "run"
[model]
dim = {SHAPE.dim}
n_layers = {SHAPE.n_layers}
n_heads = {SHAPE.n_heads}
n_kv_heads = {SHAPE.n_kv_heads}
hidden_dim = {SHAPE.hidden_dim}
vocab_size = {SHAPE.vocab_size}
rope_theta = 10000.0
[optimizer]
lr = {LR}
weight_decay = {DECAY}
[lr_scheduler]
warmup_steps = {WARMUP}
[training]
seed = {SEED}
seq_len = {SHAPE.seq_len}
local_batch_size = {BATCH}
global_batch_size = {BATCH}
max_norm = 1.0
[checkpoint]
initial_load_path = "start"
[data]
path = "data"
"""


def hearth(folder, *words):
    made = subprocess.run([HEARTH, *words], cwd=folder, capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"error: hearth {' '.join(words)}: exit code {made.returncode}\n{made.stdout}{made.stderr}")


def tokens_of(folder):
    """The tokens of the dataset, which has one document: its bytes, and EOS where the manifest has it."""
    manifest = json.load(open(os.path.join(folder, "data", "manifest.json")))
    tokens = list(open(os.path.join(folder, "text.txt"), "rb").read())
    split = manifest["splits"][0]
    if len(tokens) + 1 == split["tokens"]:
        tokens.append(manifest["tokenizer"]["eos"])
    assert len(tokens) == split["tokens"], split
    return numpy.array(tokens), f"{manifest['identity']}/{split['name']}"


def batches(folder, steps):
    tokens, identity = tokens_of(folder)
    for step in range(steps):
        rows = []
        for g in range(step * BATCH, (step + 1) * BATCH):
            _, _, first, count = order_reference.window(SEED, identity, len(tokens), SHAPE.seq_len, g)
            window = numpy.full(SHAPE.seq_len + 1, -100)
            window[:count] = tokens[first:first + count]
            rows.append(window)
        yield torch.from_numpy(numpy.stack(rows))


def train_torchtitan(model, folder, rates):
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=DECAY)
    losses = []
    for rate, rows in zip(rates, batches(folder, len(rates)), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        logits = model(rows[:, :-1].clamp_min(0))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_hearth(folder, steps):
    hearth(folder, "train", "run.toml", "--set", f"training.steps={steps}", "--set", "metrics.log_freq=1")
    with open(os.path.join(folder, "run", "metrics.jsonl")) as lines:
        records = [json.loads(line) for line in lines]
    records = [record for record in records if record.get("loss") is not None]
    return [record["loss"] for record in records], [record["lr"] for record in records]


def picture(theirs, ours, path):
    """Hearth's curve, thin, on torchtitan's, broad."""
    width, height, left, top, bottom = 720, 300, 52, 16, 36
    middle = (height - bottom) / 2
    low, high = min(theirs + ours), max(theirs + ours)
    low, high = low - 0.03 * (high - low), high + 0.03 * (high - low)

    def points(losses):
        right = width - left - 16
        return " ".join(f"{left + right * i / (len(losses) - 1):.1f},"
                        f"{top + (height - top - bottom) * (high - loss) / (high - low):.1f}"
                        for i, loss in enumerate(losses))

    marks = []
    for value in range(int(low) + 1, int(high) + 1):
        y = top + (height - top - bottom) * (high - value) / (high - low)
        marks.append(f'<line x1="{left}" x2="{width - 16}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e2e8f0"/>'
                     f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    for k in range(0, 5):
        x = left + (width - left - 16) * k / 4
        marks.append(f'<text x="{x:.1f}" y="{height - 18}" text-anchor="middle">{round(len(ours) * k / 4)}</text>')
    svg = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"
 font-size="12" fill="#334155">
<rect width="{width}" height="{height}" fill="#ffffff"/>
{chr(10).join(marks)}
<polyline points="{points(theirs)}" fill="none" stroke="#fdba74" stroke-width="7" stroke-linejoin="round"/>
<polyline points="{points(ours)}" fill="none" stroke="#1d4ed8" stroke-width="1.5"/>
<text x="{width - 210}" y="{top + 24}"><tspan fill="#ea580c">&#9632;</tspan> torchtitan's Llama 3, AdamW</text>
<text x="{width - 210}" y="{top + 42}"><tspan fill="#1d4ed8">&#9632;</tspan> Hearth</text>
<text x="{width / 2}" y="{height - 3}" text-anchor="middle">step</text>
<text x="14" y="{middle}" transform="rotate(-90 14 {middle})" text-anchor="middle">loss, nats a token</text>
</svg>
"""
    with open(path, "w") as file:
        file.write(svg)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--text", metavar="FILE", help="UTF-8; the default is PyTorch's own Python sources")
    parser.add_argument("--picture", metavar="FILE.svg")
    parser.add_argument("--tolerance", type=float, default=0.05,
                        help="of the difference of two losses, which rounding makes grow")
    parser.add_argument("--torchtitan", metavar="DIR", default=torchtitan_step.FOLDER)
    options = parser.parse_args()
    source, version = torchtitan_step.found_in(options.torchtitan)
    if version != torchtitan_step.VERSION:
        torchtitan_step.refuse(f"torchtitan {torchtitan_step.VERSION} is not here", "", torchtitan_step.INSTALL)
    model = torchtitan_step.made_model(torchtitan_step.import_torchtitan(source), SHAPE)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "text.txt"), "wb") as text:
            for name in [options.text] if options.text else default_text():
                text.write(open(name, "rb").read())
        with open(os.path.join(folder, "run.toml"), "w") as run:
            run.write(RUN)
        hearth(folder, "data", "build", "--out", "data", "--tokenizer", "bytes", "text.txt")
        torch.distributed.checkpoint.save(model.state_dict(), checkpoint_id=os.path.join(folder, "start"), no_dist=True)
        ours, rates = train_hearth(folder, options.steps)
        theirs = train_torchtitan(model, folder, rates)
    apart = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    print(json.dumps({"steps": len(ours), "first_loss": [theirs[0], ours[0]], "last_loss": [theirs[-1], ours[-1]],
                      "largest_difference": max(apart), "of_the_first_100": max(apart[:100])}))
    if options.picture:
        picture(theirs, ours, options.picture)
    if max(apart) > options.tolerance:
        sys.exit(f"error: losses differ by {max(apart):.4f} at step {apart.index(max(apart)) + 1}")


def default_text():
    folder = os.path.join(os.path.dirname(torch.__file__), "nn")
    return [os.path.join(at, name) for at, _, names in sorted(os.walk(folder)) for name in sorted(names)
            if name.endswith(".py")]


if __name__ == "__main__":
    main()
