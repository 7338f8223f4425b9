# SPDX-License-Identifier: Apache-2.0
"""GPT-NeoX's order and mixture, restated from its gpt2_dataset.py, blendable_dataset.py and helpers.cpp with NumPy.

usage: neox_reference.py maps SEQ_LEN SAMPLES SEED LENGTH...
           four lines: epochs; doc_idx; sample_idx row by row; shuffle_idx
       neox_reference.py rows SEQ_LEN SAMPLES SEED FILE
           FILE has one document's ids a line; for each sample in order a line of seq_len + 1 ids
       neox_reference.py mixture COUNT WEIGHT...
           for each of COUNT samples a line: dataset, number of its earlier samples
       neox_reference.py samples COUNT WEIGHT...
           the number of samples that each dataset is asked for
       neox_reference.py borders SPLIT SIZE...
           a line for each number of documents: the beginnings of train, validation and test, and the end
       neox_reference.py shuffle SEED SIZE...
           a line for each shuffle of arange(SIZE), one stream
"""

import math
import sys

import numpy as np


def index_maps(sizes, seq_len, num_samples, seed):
    tokens_per_epoch = int(sum(sizes))
    epochs = 0
    while True:
        epochs += 1
        if (tokens_per_epoch * epochs - 1) // seq_len >= num_samples:
            break
    rng = np.random.RandomState(seed)
    doc_idx = np.tile(np.arange(len(sizes), dtype=np.int32), epochs)
    rng.shuffle(doc_idx)
    rows = [(0, 0)]
    place, offset = 0, 0
    for _ in range((epochs * tokens_per_epoch - 1) // seq_len):
        remaining = seq_len + 1
        while remaining != 0:
            length = sizes[doc_idx[place]] - offset
            remaining -= length
            if remaining <= 0:
                offset += remaining + length - 1
                remaining = 0
            else:
                place, offset = place + 1, 0
        rows.append((place, offset))
    shuffle_idx = np.arange(len(rows) - 1, dtype=np.uint32)
    rng.shuffle(shuffle_idx)
    return epochs, doc_idx, rows, shuffle_idx


def sample(documents, doc_idx, rows, k):
    (first, begin), (last, end) = rows[k], rows[k + 1]
    if first == last:
        return documents[doc_idx[first]][begin:end + 1]
    tokens = list(documents[doc_idx[first]][begin:])
    for place in range(first + 1, last):
        tokens += documents[doc_idx[place]]
    return tokens + documents[doc_idx[last]][:end + 1]


def normalized(weights):
    total = 0.0
    for weight in weights:  # Python before 3.12 adds floats like this
        total += weight
    return [weight / total for weight in weights]


def mixture(weights, count):
    weights = np.array(normalized(weights), dtype=np.float64)
    weights /= np.sum(weights)
    given = np.zeros(len(weights))
    for i in range(count):
        chosen = int(np.argmax(weights * max(float(i), 1.0) - given))  # the first of equal ones
        yield chosen, int(given[chosen])
        given[chosen] += 1


def borders(split, size):
    shares = [float(s) for s in split.split("," if "," in split else "/")]
    shares = (shares + [0.0, 0.0])[:3]
    total = sum(shares)
    index = [0]
    for share in shares:
        index.append(index[-1] + int(round(share / total * float(size))))
    off = index[-1] - size
    return [0] + [i - off for i in index[1:]]


def main():
    kind, numbers = sys.argv[1], sys.argv[2:]
    if kind == "maps":
        epochs, doc_idx, rows, shuffle_idx = index_maps(list(map(int, numbers[3:])), *map(int, numbers[:3]))
        print(epochs)
        print(*doc_idx)
        print(*(number for row in rows for number in row))
        print(*shuffle_idx)
    elif kind == "rows":
        documents = [list(map(int, line.split())) for line in open(numbers[3])]
        _, doc_idx, rows, shuffle_idx = index_maps([len(d) for d in documents], *map(int, numbers[:3]))
        for k in shuffle_idx:
            print(*sample(documents, doc_idx, rows, k))
    elif kind == "mixture":
        for pick in mixture(list(map(float, numbers[1:])), int(numbers[0])):
            print(*pick)
    elif kind == "samples":
        print(*(int(math.ceil(int(numbers[0]) * w * 1.005)) for w in normalized(list(map(float, numbers[1:])))))
    elif kind == "borders":
        for size in map(int, numbers[1:]):
            print(*borders(numbers[0], size))
    else:
        rng = np.random.RandomState(int(numbers[0]))
        for size in map(int, numbers[1:]):
            values = np.arange(size)
            rng.shuffle(values)
            print(*values)


if __name__ == "__main__":
    main()
