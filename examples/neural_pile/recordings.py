#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""recordings.py SEED COUNT OUT: recordings of 32 neurons in 300 time bins of 20 ms, that stand for the Neural Pile's.

Each neuron fires most at its own phase of a slow rhythm; where the rhythm begins differs among recordings. The files
are what `hearth data build` reads: .npy of uint8, neurons x time bins, and a metadata.jsonl.
"""
import json
import math
import os
import random
import sys

NEURONS, BINS, PERIOD = 32, 300, 25


def poisson(numbers, rate):
    left, count = math.exp(-rate), 0
    product = numbers.random()
    while product > left:
        product *= numbers.random()
        count += 1
    return count


def recording(numbers, phases):
    begin = numbers.random()
    rows = []
    for phase in phases:
        at = [math.cos(2 * math.pi * (bin_ / PERIOD + begin - phase)) for bin_ in range(BINS)]
        rows.append(bytes(poisson(numbers, 0.02 + 1.5 * max(0.0, value) ** 4) for value in at))
    return b"".join(rows)


def main():
    seed, count, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    phases = [random.Random(neuron).random() for neuron in range(NEURONS)]  # of the animal: the same in all recordings
    numbers = random.Random(seed)
    os.makedirs(out)
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({NEURONS}, {BINS}), }}".ljust(117) + "\n"
    with open(f"{out}/metadata.jsonl", "w", encoding="utf-8") as labels:
        for row in range(count):
            name = f"row-{row:06}.npy"
            with open(f"{out}/{name}", "wb") as file:
                file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
                file.write(recording(numbers, phases))
            labels.write(json.dumps({"file_name": name, "subject_id": "made", "session_id": str(seed),
                                     "segment_id": str(row), "source_dataset": "made"}) + "\n")


main()
