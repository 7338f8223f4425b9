# SPDX-License-Identifier: Apache-2.0
"""JSON and CSV files, and what Python and Hugging Face's `datasets` read from them.

usage: tables_reference.py FOLDER   FOLDER/NAME.json and .csv, and FOLDER/NAME.texts with their texts as a JSON list
"""

import csv
import io
import json
import os
import random
import sys

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import datasets  # noqa: E402

datasets.disable_progress_bars()

PIECES = ["plain words ", "\n", '"', "\\", "{", "}", "[", "]", ",", ":", "\u00e9", "\U0001f600", "\t", "\u0000",
          ";", "'"]


def texts(seed, count, pieces):
    draw = random.Random(seed)
    return ["".join(draw.choices(pieces, k=draw.randrange(1, 12))) for _ in range(count)]


def record(i, text):
    return {"id": i, "meta": {"tags": ["a", {"b": None}], "score": -1.5e3}, "text": text, "ok": i % 2 == 0}


def write(folder, name, content, expected):
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as file:
        file.write(content)
    with open(os.path.join(folder, name + ".texts"), "w", encoding="utf-8") as file:
        json.dump(expected, file)


def from_datasets(kind, path, **options):
    return list(datasets.load_dataset(kind, data_files=path, split="train", **options)["text"])


def main(folder):
    json_texts = texts(1, 300, PIECES)
    records = [record(i, text) for i, text in enumerate(json_texts)]
    layouts = {"array": {}, "pretty": {"indent": 2}, "unicode": {"ensure_ascii": False, "indent": "\t"}}
    for name, options in layouts.items():
        write(folder, f"{name}.json", json.dumps(records, **options), json_texts)
    write(folder, "objects.json", "\n".join(json.dumps(r, indent=4) for r in records) + "\n", json_texts)
    write(folder, "touching.json", "".join(json.dumps(r) for r in records), json_texts)
    write(folder, "returns.jsonl", "\r".join(json.dumps(r) for r in records), json_texts)
    write(folder, "one.json", json.dumps(records[0], indent=2), json_texts[:1])
    write(folder, "empty.json", " [ ]\n", [])
    cache = os.path.join(folder, "cache")
    assert from_datasets("json", os.path.join(folder, "array.json"), cache_dir=cache) == json_texts

    # A zero byte ends a text for pandas.
    csv_texts = [text.replace("\0", "") for text in texts(2, 300, PIECES + ["\r\n"])]
    csv_texts = [text if text not in ("", "\n", "\r\n") else "words" for text in csv_texts]
    for name, options in {"all.csv": {"quoting": csv.QUOTE_ALL}, "few.csv": {}, "unix.csv": {"lineterminator": "\n"},
                          "tabs.tsv": {"delimiter": "\t"}, "semicolons.csv": {"delimiter": ";"},
                          "named_by_content.txt": {}}.items():
        out = io.StringIO()
        writer = csv.writer(out, **options)
        writer.writerow(["id", "text", "source"])
        writer.writerows([i, text, "x, y"] for i, text in enumerate(csv_texts))
        write(folder, name, out.getvalue(), csv_texts)
        with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
            read = [row["text"] for row in csv.DictReader(file, delimiter=options.get("delimiter", ","))]
        assert read == csv_texts
    plain = [f"row {i}, with a comma" for i in range(50)]
    out = io.StringIO()
    csv.writer(out).writerows([["text"]] + [[text] for text in plain])
    write(folder, "single.csv", out.getvalue(), plain)
    assert from_datasets("csv", os.path.join(folder, "single.csv"), cache_dir=cache) == plain


main(sys.argv[1])
