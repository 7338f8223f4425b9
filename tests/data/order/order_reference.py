# SPDX-License-Identifier: Apache-2.0
"""The order of samples as docs/data_format.md describes it.

usage: order_reference.py permutation N KEY [N KEY ...]
           for each permutation a line: the images of the first and the last 20 numbers, or of all if there are fewer
       order_reference.py windows SEED IDENTITY TOKENS SEQ_LEN G...
           for each sample a line: epoch, window, first token, number of tokens
       order_reference.py mixture COUNT FIRST WEIGHT,WEIGHT... [FIRST WEIGHT,WEIGHT...]
           for each of COUNT samples a line: source, number of its earlier samples
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from xxh3 import xxh3_64  # noqa: E402

MASK = 2**64 - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def scramble(value, key):
    return ((value ^ key) * (key | 1)) & MASK


def permuted(n, key, index):
    if n < 64:
        table = list(range(n))
        for i in range(n - 1, 0, -1):
            j = mix((key + i) & MASK) * (i + 1) // 2**64
            table[i], table[j] = table[j], table[i]
        return table[index]
    low_bits = ((n - 1).bit_length() + 1) // 2
    end = (n - 1) // 2**low_bits + 1
    value = index
    while True:
        high, low = value >> low_bits, value % 2**low_bits
        for r in range(0, 8, 2):
            high = (high + scramble(low, mix((key + r) & MASK)) * end // 2**64) % end
            low ^= scramble(high, mix((key + r + 1) & MASK)) >> (64 - low_bits)
        value = high * 2**low_bits + low
        if value < n:
            return value


def window(seed, identity, tokens, seq_len, g):
    n = -(-(tokens - 1) // seq_len)
    epoch, position = divmod(g, n)
    key = xxh3_64(seed.to_bytes(8, "little") + b"shuffle:" + identity.encode())
    number = permuted(n, (key + epoch * 0xD1B54A32D192ED03) & MASK, position)
    first = number * seq_len
    return epoch, number, first, min(seq_len + 1, tokens - first)


def slots_of(weights):
    exact = [w / sum(weights) * 65536 for w in weights]
    slots = [int(x) for x in exact]
    largest = sorted((s for s in range(len(weights)) if weights[s]), key=lambda s: slots[s] - exact[s])
    for s in largest[: 65536 - sum(slots)]:
        slots[s] += 1
    return slots


def table_of(weights):
    n = slots_of(weights)
    given, table = [0] * len(n), []
    for place in range(65536):
        may = [s for s in range(len(n)) if given[s] < n[s] and given[s] * 65536 // n[s] <= place]
        chosen = min(may, key=lambda s: (-(-(given[s] + 1) * 65536 // n[s]), s))
        given[chosen] += 1
        table.append(chosen)
    return table


def picks(count, segments):
    before = [0] * len(segments[0][1])
    for (first, weights), (end, _) in zip(segments, segments[1:] + [(count, None)]):
        table = table_of(weights)
        for g in range(first, min(end, count)):
            source = table[(g - first) % 65536]
            yield source, before[source]
            before[source] += 1


def main():
    if sys.argv[1] == "mixture":
        segments = [(int(first), [float(w) for w in weights.split(",")])
                    for first, weights in zip(sys.argv[3::2], sys.argv[4::2])]
        for source, index in picks(int(sys.argv[2]), segments):
            print(source, index)
        return
    if sys.argv[1] == "permutation":
        for n, key in zip(map(int, sys.argv[2::2]), map(int, sys.argv[3::2])):
            ends = [*range(min(n, 20)), *range(n - min(n, 20), n)]
            print(*(permuted(n, key, index) for index in ends))
    else:
        seed, tokens, seq_len = int(sys.argv[2]), int(sys.argv[4]), int(sys.argv[5])
        for g in map(int, sys.argv[6:]):
            print(*window(seed, sys.argv[3], tokens, seq_len, g))


if __name__ == "__main__":
    main()
