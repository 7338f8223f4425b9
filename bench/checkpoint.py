#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saving a training's state: Hearth at once and behind the training, PyTorch's DCP save and async_save, the disk alone.

    .deps/oracle/bin/python bench/checkpoint.py [--folder DIR] [--dim 512] [--rounds 3] [--against BIN]

All have the same bytes: weights and two moments in float32. "stall" is how long the training waits for a save, "whole"
how long it takes until the checkpoint is there. Hearth also reads back and compares what it wrote, and trains
meanwhile. The disk alone is one file of as many bytes, written and fsynced; "direct" is the same past the page cache,
which is as fast as the disk writes. "with reading" is the same while a second thread reads what was written: the most
that a save can reach that reads itself back. The copy is one in memory. --against also measures the programs in
another folder, in alternation.
"""
import argparse
import json
import mmap
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

BIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build/release/bin")
UNITS = {"ms": 1e-3, "s": 1, "min": 60}
SAVES = 3


def run_file(folder, dim, mode):
    with open(os.path.join(folder, "run.toml"), "w", encoding="utf-8") as file:
        file.write(f'[job]\ndump_folder = "{mode}"\n'
                   f"[model]\ndim = {dim}\nn_layers = 8\nn_heads = 8\nvocab_size = 32000\n"
                   f"[training]\nseq_len = 128\nlocal_batch_size = 1\nsteps = {10 * SAVES}\n[data]\npath = \"data\"\n"
                   f'[checkpoint]\ninterval = 10\nkeep_latest_k = 1\nasync_mode = "{mode}"\n')


def seconds(text):
    """Of "1.25 s", "12 ms", "2 min 3 s"."""
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([0-9.]+) (ms|s|min)", text))


def num_parameters(folder, dim):
    run_file(folder, dim, "disabled")
    plan = [os.path.join(BIN, "hearth"), "plan", os.path.join(folder, "run.toml"), "--json", "--gemm-tflops", "1"]
    return json.loads(subprocess.run(plan, capture_output=True, text=True, check=True).stdout)["model"]["parameters"]


def hearth_saves(programs, folder, dim, mode):
    """Stalls and whole times of the saves but the last, for which the training waits."""
    run_file(folder, dim, mode)
    shutil.rmtree(os.path.join(folder, mode), ignore_errors=True)
    train = subprocess.run([os.path.join(programs, "hearth"), "train", os.path.join(folder, "run.toml")],
                           capture_output=True, text=True, check=True)
    found = re.findall(r"saved \S+ in ([^;\n]+)(?:; the training waited ([^\n]+))?", train.stdout)
    whole = [seconds(text) for text, _ in found]
    stalls = [seconds(waited or text) for text, waited in found]
    return stalls[:-1], whole[:-1]


def pytorch_saves(folder, num_bytes):
    """The stall and the whole time of DCP's save, and of its async_save, in this order."""
    count = num_bytes // 4 // 72
    state = {f"layer.{i}": torch.zeros(count) for i in range(72)}
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531", RANK="0", WORLD_SIZE="1")
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    times = []
    for is_async in (False, True):
        path = os.path.join(folder, "dcp")
        shutil.rmtree(path, ignore_errors=True)
        begin = time.monotonic()
        if is_async:
            future = dcp.async_save(state, checkpoint_id=path)
            stall = time.monotonic() - begin
            future.result()
        else:
            dcp.save(state, checkpoint_id=path)
            stall = time.monotonic() - begin
        times += [stall, time.monotonic() - begin]
    shutil.rmtree(path)
    return times


def disk_seconds(folder, num_bytes, flags=0, reads=False):
    path, block = os.path.join(folder, "plain"), mmap.mmap(-1, 1 << 22)  # direct writes need whole pages
    block.write(os.urandom(len(block)))
    blocks, written = num_bytes // len(block), queue.Queue()

    def read():
        other, into = os.open(path, os.O_RDONLY | flags), mmap.mmap(-1, len(block))
        for i in range(blocks):
            written.get()
            os.preadv(other, [into], i * len(block))
        os.close(other)

    begin = time.monotonic()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags)
    reader = threading.Thread(target=read)
    if reads:
        reader.start()
    for _ in range(blocks):
        os.write(file, block)
        written.put(None)
    os.fsync(file)
    os.close(file)
    if reads:
        reader.join()
    taken = time.monotonic() - begin
    os.remove(path)
    return taken


def copy_seconds(num_bytes):
    source, copy = torch.ones(num_bytes // 4), torch.ones(num_bytes // 4)
    best = 1e9
    for _ in range(3):
        begin = time.monotonic()
        copy.copy_(source)
        best = min(best, time.monotonic() - begin)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="runs", help="on the disk that is measured")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", metavar="BIN", help="folder of other programs")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        text = os.path.join(folder, "text.txt")
        with open(text, "w", encoding="utf-8") as file:
            file.write("some words to train on, which do not matter here\n" * 20000)
        subprocess.run([os.path.join(BIN, "hearth"), "data", "build", "--out", os.path.join(folder, "data"),
                        "--tokenizer", "bytes", text], check=True, capture_output=True)
        num_bytes = 12 * num_parameters(folder, options.dim)
        for number in range(options.rounds):
            print(f"round {number + 1}: {num_bytes / 2**20:.0f} MiB; disk {disk_seconds(folder, num_bytes):.2f} s, "
                  f"direct {disk_seconds(folder, num_bytes, os.O_DIRECT):.2f} s, "
                  f"with reading {disk_seconds(folder, num_bytes, os.O_DIRECT, reads=True):.2f} s; "
                  f"copy {copy_seconds(num_bytes):.2f} s")
            for mode in ("disabled", "async"):
                for name, programs in (("Hearth", BIN), ("other", options.against)):
                    if programs:
                        stalls, whole = hearth_saves(programs, folder, options.dim, mode)
                        print(f"  {name} {mode:9} stall {max(stalls):.2f} s, whole {max(whole):.2f} s", flush=True)
            times = pytorch_saves(folder, num_bytes)
            print(f"  DCP save         stall {times[0]:.2f} s, whole {times[1]:.2f} s")
            print(f"  DCP async_save   stall {times[2]:.2f} s, whole {times[3]:.2f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
