# SPDX-License-Identifier: Apache-2.0
"""Spike arrays as tokens: the rule of the neural-data repositories, restated with NumPy.

usage: spikes_reference.py make FOLDER
           arrays of several shapes as numpy.save writes them, and their metadata.jsonl
       spikes_reference.py tokens FOLDER VOCAB_SIZE N_FIXED PICKLE SEED EPOCH IDENTITY/SPLIT OUT
           writes the stream of all arrays of the folder, sorted by name, to OUT as int32. N_FIXED 0: all neurons;
           else neurons chosen as in docs/data_format.md. PICKLE -: a count is its id
       spikes_reference.py vocabulary FOLDER PATCH_NEURONS PATCH_BINS VOCAB_SIZE PICKLE KIND
           learns a vocabulary of patches as the repositories do and pickles it as they do; KIND int or numpy: the ids'
           type
       spikes_reference.py read_vocabulary TOKENIZER PICKLE
           prints "equal" if tokenizer.patches, read as src/recordings/patch_file.h describes it, has the pickle's
           content
       spikes_reference.py weights FOLDER FILE
           prints "equal" if FILE has the token weights of the counts in FOLDER, capped at that of id 10
"""

import json
import os
import pickle
import struct
import sys
from collections import Counter
from fractions import Fraction

import numpy as np

MASK = 2**32 - 1


def make(folder):
    os.makedirs(folder)
    rng = np.random.default_rng(7)
    lines = []
    shapes = [(7, 40), (16, 31), (16, 45), (23, 60), (1, 15), (5, 1), (64, 100), (300, 17), (40, 0)]
    for i, (n, t) in enumerate(shapes):
        a = rng.poisson(0.4, size=(n, t)).astype(np.uint8)
        if a.size > 100:
            a[n // 2, t // 2] = 254
        if i % 3 == 1:
            a = np.asfortranarray(a)
        np.save(f"{folder}/row-{i}.npy", a)
        lines.append({"file_name": f"row-{i}.npy", "subject_id": f"s{i % 2}", "session_id": f"2021-05-0{i}",
                      "segment_id": str(i), "source_dataset": "ibl" if i % 2 else "sh\u00efeld", "brain_area": "V1"})
    with open(f"{folder}/metadata.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in reversed(lines))


def philox(key, low, high):
    """Philox4x32-10: Salmon et al., SC 2011."""
    c = [low & MASK, low >> 32, high & MASK, high >> 32]
    k0, k1 = key & MASK, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c[0] | c[1] << 32


def standardise(a, n_fixed, seed, row, epoch, name):
    n = len(a)
    if n_fixed == 0 or n == n_fixed:
        return a
    if n < n_fixed:
        return np.tile(a, (-(-n_fixed // n), 1))[:n_fixed]
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data"))
    from xxh3 import xxh3_64

    key = xxh3_64(seed.to_bytes(8, "little") + b"neurons:" + name.encode())
    start = philox(key, row, epoch) * (n - n_fixed + 1) >> 64
    return a[start : start + n_fixed]


def counts_to_tokens(a, vocab_size):
    bos = np.full((1, a.shape[1]), vocab_size - 1, dtype=np.int32)
    return np.concatenate([bos, a.astype(np.int32)]).T.flatten()


def cut(a, shape):
    """Patches [columns, patches of a column, p0, p1]."""
    p0, p1 = shape
    a = np.pad(a, ((0, -a.shape[0] % p0), (0, -a.shape[1] % p1)))
    return a.reshape(a.shape[0] // p0, p0, a.shape[1] // p1, p1).transpose(2, 0, 1, 3)


def patches_to_tokens(a, tokenizer):
    patches = cut(a, tokenizer["patch_size"])
    ids = np.array([[tokenizer["index_map"].get(p.tobytes(), 0) for p in column] for column in patches], dtype=np.int32)
    ids = ids.reshape(patches.shape[:2])
    sep = np.full((len(ids), 1), tokenizer["k_limit"] + 1, dtype=np.int32)
    return np.concatenate([sep, ids], axis=1).flatten()


def arrays_of(folder):
    return [np.load(f"{folder}/{name}") for name in sorted(os.listdir(folder)) if name.endswith(".npy")]


def tokens(folder, vocab_size, n_fixed, path, seed, epoch, name, out):
    tokenizer = None if path == "-" else pickle.load(open(path, "rb"))
    stream = []
    for row, a in enumerate(arrays_of(folder)):
        a = standardise(a, int(n_fixed), int(seed), row, int(epoch), name)
        stream.append(patches_to_tokens(a, tokenizer) if tokenizer else counts_to_tokens(a, int(vocab_size)))
    np.concatenate(stream).astype(np.int32).tofile(out)


def nearest(patch, references):
    """Cosines, exactly: the square of the dot over the square of the length. Argmax takes the first of equal ones."""
    dots = references.astype(np.int64) @ patch.astype(np.int64)
    squares = (references.astype(np.int64) ** 2).sum(axis=1)
    exact = [Fraction(int(d) ** 2, int(s)) if s else Fraction(0) for d, s in zip(dots, squares)]
    best = exact.index(max(exact))
    # The repositories' own values agree except in the last bits.
    lengths = np.sqrt(squares.astype(np.float64))
    cosines = np.divide(dots, lengths, out=np.zeros(len(dots)), where=lengths > 0)
    assert cosines[best] >= cosines.max() * (1 - 1e-12)
    return best


def vocabulary(folder, p0, p1, vocab_size, path, kind):
    shape = (int(p0), int(p1))
    k_limit = int(vocab_size) - 2
    counts = Counter()
    for a in arrays_of(folder):
        counts.update(p.tobytes() for column in cut(a, shape) for p in column)
    ordered = sorted(counts, key=lambda p: (-counts[p], p))
    index_map = {p: i for i, p in enumerate(ordered[: k_limit + 1])}
    references = np.array([np.frombuffer(p, dtype=np.uint8) for p in index_map])
    for p in ordered[k_limit + 1 :]:
        index_map[p] = nearest(np.frombuffer(p, dtype=np.uint8), references)
    if kind == "numpy":
        index_map = {p: np.int64(i) for p, i in index_map.items()}
    with open(path, "wb") as f:
        pickle.dump({"index_map": index_map, "patch_size": shape, "k_limit": k_limit}, f)


def read_vocabulary(path, pickle_path):
    tokenizer = pickle.load(open(pickle_path, "rb"))
    content = open(path, "rb").read()
    magic, version, p0, p1, vocab_size, references, others = struct.unpack_from("<8sIIIIQQ", content)
    assert (magic, version, (p0, p1)) == (b"HRTHPTCH", 1, tokenizer["patch_size"])
    assert vocab_size == tokenizer["k_limit"] + 2
    patches = [content[40 + i * p0 * p1 : 40 + (i + 1) * p0 * p1] for i in range(references + others)]
    ids = list(range(references)) + list(struct.unpack_from(f"<{others}I", content, 40 + len(patches) * p0 * p1))
    assert len(content) == 40 + len(patches) * p0 * p1 + 4 * others + 8
    assert dict(zip(patches, ids)) == tokenizer["index_map"] and len(set(patches)) == len(patches)
    print("equal", references, others)


def weights(folder, path):
    counts = sum(np.bincount(a.flatten(), minlength=256) for a in arrays_of(folder))
    expected = np.full(256, np.inf)
    np.divide(counts.sum(), counts, out=expected, where=counts > 0)
    cap = max(k for k in range(11) if counts[k] > 0)
    expected = np.minimum(expected, expected[cap])
    expected[255] = 1
    written = np.load(path)
    assert written.dtype == np.float32 and len(set(written)) > 4
    assert (written == expected.astype(np.float32)).all(), (written, expected)
    print("equal")


if __name__ == "__main__":
    commands = [make, tokens, vocabulary, read_vocabulary, weights]
    {command.__name__: command for command in commands}[sys.argv[1]](*sys.argv[2:])
