#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/tokenizer.py [PATH...]: MB/s of Hearth's tokenizer beside tiktoken and `tokenizers`, in one run, on one core.

    .deps/oracle/bin/python bench/tokenizer.py

Llama-3's vocabulary; the text is the quickstart's, the sources of Python's manual (package python3-doc), unless paths
are given. Processor time, so that other work on the machine counts little; the best of three passes, one of a peer and
one of Hearth in alternation.
Needs scripts/test.sh to have run once (build/release and the oracle environment).
"""

import glob
import json
import os
import subprocess
import sys
import time

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "tokenizer"))

import llama3_reference as reference  # noqa: E402


def read_texts(paths):
    files = []
    for path in paths:
        for folder, _, names in os.walk(path):
            files += [os.path.join(folder, name) for name in names]
        files += [path] if os.path.isfile(path) else []
    texts = []
    for file in sorted(files):
        with open(file, "rb") as opened:
            texts.append(opened.read().decode("utf-8", "replace"))
    return texts


def mb_per_s(encode, texts):
    size = sum(len(text.encode()) for text in texts)
    best = 0
    for _ in range(3):
        start = time.process_time()
        tokens = sum(len(encode(text)) for text in texts)
        best = max(best, size / (time.process_time() - start) / 1e6)
    return best, tokens


def hearth(paths):
    line = [os.path.join(ROOT, "build/release/bin/hearth"), "bench", "tokenizer", "--json", "--tokenizer",
            reference.model_path(), *paths]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    return {timing["name"]: (timing["mb_per_s"], timing["tokens"]) for timing in json.loads(done.stdout)["timings"]}


def main():
    # The package shows one folder under several names.
    paths = sys.argv[1:] or sorted({os.path.realpath(path)
                                    for path in glob.glob("/usr/share/doc/python3.*/html/_sources")})
    if not paths:
        sys.exit("bench/tokenizer.py: there is no text: install python3-doc, or give a path")
    texts = read_texts(paths)
    first = hearth(paths)
    rows = [("tiktoken", *mb_per_s(reference.encoding().encode_ordinary, texts))]
    huggingface = reference.huggingface()
    rows.append(("tokenizers", *mb_per_s(lambda text: huggingface.encode_batch_fast([text])[0].ids, texts)))
    second = hearth(paths)
    for name, timing in first.items():
        rows.append((f"hearth, {name}", *max(timing, second[name])))
    print(f"{sum(len(text.encode()) for text in texts) / 1e6:.1f} MB in {len(texts)} files; one core, processor time\n")
    print(f"| {'what':<28} | {'MB/s':>7} | {'tokens':>8} | {'x tiktoken':>10} | {'x tokenizers':>12} |")
    print("|---|---|---|---|---|")
    for name, speed, tokens in rows:
        print(f"| {name:<28} | {speed:7.1f} | {tokens:8} | {speed / rows[0][1]:10.1f} | {speed / rows[1][1]:12.1f} |")


main()
