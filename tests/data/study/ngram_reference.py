# SPDX-License-Identifier: Apache-2.0
"""Interpolated Witten-Bell n-grams over bytes, by the formula, with dictionaries.

usage: ngram_reference.py MAX_ORDER TRAIN_DIR VALIDATION_DIR   prints bits per byte of orders 1 .. MAX_ORDER, one a line
"""

import math
import sys
from collections import defaultdict
from pathlib import Path


def main():
    max_order = int(sys.argv[1])
    counts = defaultdict(lambda: defaultdict(int))  # context -> byte -> count
    for path in Path(sys.argv[2]).iterdir():
        text = path.read_bytes()
        for i, byte in enumerate(text):
            for length in range(min(i, max_order - 1) + 1):
                counts[text[i - length : i]][byte] += 1
    bits, total = [0.0] * max_order, 0
    for path in Path(sys.argv[3]).iterdir():
        text = path.read_bytes()
        total += len(text)
        for i, byte in enumerate(text):
            p = 1 / 256
            for order in range(1, max_order + 1):
                context = text[i - order + 1 : i] if order - 1 <= i else None
                if context is not None and context in counts:
                    seen = counts[context]
                    p = (seen.get(byte, 0) + len(seen) * p) / (sum(seen.values()) + len(seen))
                bits[order - 1] -= math.log2(p)
    for value in bits:
        print(repr(value / total))


if __name__ == "__main__":
    main()
