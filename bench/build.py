#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/build.py [MEGABYTES]: MB/s of text and peak memory of `hearth data build`, beside `datasets` with `tokenizers`.

    .deps/oracle/bin/python bench/build.py 400

The corpus is zstd JSON lines made of Python's manual (package python3-doc) again and again, every document with a number in front, so
that none is the same; ids are Llama-3's. Hearth writes shards with one thread and with all; `datasets` maps a tenth of the corpus,
not compressed, in one process (its rate hardly depends on the size). MB are 10^6 bytes of text, not of the compressed file.
Needs scripts/test.sh to have run once (build/release and the oracle environment).
"""

import glob
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1",
                  HF_DATASETS_DISABLE_PROGRESS_BARS="1")
sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "tokenizer"))

import pyarrow  # noqa: E402

import llama3_reference as reference  # noqa: E402


def texts():
    files = sorted({os.path.realpath(f)
                    for f in glob.glob("/usr/share/doc/python3.*/html/_sources/**/*.txt", recursive=True)})
    if not files:
        sys.exit("bench/build.py: there is no text: install python3-doc")
    number = 0
    while True:
        for file in files:
            with open(file, encoding="utf-8") as opened:
                yield f"{number} {opened.read()}"
            number += 1


def write_corpus(path, size):
    """Returns the bytes of text in it."""
    written = 0
    with pyarrow.output_stream(path, compression="detect") as out:
        for text in texts():
            out.write(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n")
            written += len(text.encode())
            if written >= size:
                return written


def build(folder, corpus, threads):
    """Seconds by the wall clock, seconds of processor time, peak of resident bytes."""
    out = os.path.join(folder, f"out{threads}")
    line = [os.path.join(ROOT, "build/release/bin/hearth"), "data", "build", "--out", out, "--tokenizer",
            reference.model_path(), "--threads", str(threads), corpus]
    start = time.monotonic()
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"bench/build.py: {' '.join(line)} failed")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def map_with_datasets(folder, corpus):
    """Processor seconds from reading the corpus to its Arrow file of ids."""
    import datasets

    tokenizer = reference.huggingface()
    start = resource.getrusage(resource.RUSAGE_SELF)
    rows = datasets.load_dataset("json", data_files=corpus, split="train", cache_dir=os.path.join(folder, "cache"))
    rows.map(lambda batch: {"ids": [e.ids for e in tokenizer.encode_batch_fast(batch["text"])]}, batched=True,
             remove_columns=rows.column_names)
    end = resource.getrusage(resource.RUSAGE_SELF)
    return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


def main():
    size = float(sys.argv[1] if len(sys.argv) > 1 else 400) * 1e6
    with tempfile.TemporaryDirectory(prefix="hearth-bench-") as folder:
        corpus, tenth = os.path.join(folder, "corpus.jsonl.zst"), os.path.join(folder, "tenth.jsonl")
        size, part = write_corpus(corpus, size), write_corpus(tenth, size / 10)
        print(f"{size / 1e6:.0f} MB of text, {os.path.getsize(corpus) / 1e6:.0f} MB on disk\n")
        print("| what | MB/s | MB/s a core | peak memory, MB |\n|---|---|---|---|")
        for threads in sorted({1, os.cpu_count() or 1}):
            wall, processor, memory = build(folder, corpus, threads)
            print(f"| hearth data build, threads: {threads} | {size / wall / 1e6:.0f} | {size / processor / 1e6:.0f} | {memory / 1e6:.0f} |")
        seconds = map_with_datasets(folder, tenth)
        print(f"| datasets.map with tokenizers | | {part / seconds / 1e6:.1f} | |")


main()
