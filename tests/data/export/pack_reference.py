# SPDX-License-Identifier: Apache-2.0
"""Packs as the Trainium recipe does, with `datasets`, and compares with a folder that hearth packed.

usage: pack_reference.py FOLDER LENGTH DOCUMENTS.json   prints JSON: FOLDER's content, and whether the recipe gives it

DOCUMENTS.json is a list of lists of ids. The recipe starts with a tokenizing job's columns. It drops text and
token_count and renames tokens to input_ids. A map over batches of (by default) 1000 documents joins each batch and
keeps whole blocks.
"""

import json
import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import datasets  # noqa: E402
import pyarrow  # noqa: E402

datasets.disable_progress_bars()


def blocks_of(batch, length):
    joined = [token for tokens in batch["input_ids"] for token in tokens]
    kept = len(joined) // length * length
    blocks = [joined[i:i + length] for i in range(0, kept, length)]
    return {"input_ids": blocks, "attention_mask": [[1] * length for _ in blocks], "labels": [list(b) for b in blocks]}


def recipe(documents, length):
    columns = {"text": ["" for _ in documents], "tokens": documents, "token_count": [len(d) for d in documents]}
    features = datasets.Features({"text": datasets.Value("string"),
                                  "tokens": datasets.Sequence(datasets.Value("int32")),
                                  "token_count": datasets.Value("int32")})
    rows = datasets.Dataset.from_dict(columns, features=features)
    rows = rows.remove_columns(["token_count", "text"]).rename_column("tokens", "input_ids")
    return rows.map(lambda batch: blocks_of(batch, length), batched=True)


def stream_of(folder):
    with open(os.path.join(folder, "data-00000-of-00001.arrow"), "rb") as file:
        stream = pyarrow.ipc.open_stream(file)
        return stream.schema, [batch.num_rows for batch in stream]


def main(folder, length, documents):
    with open(documents, encoding="utf-8") as file:
        theirs = recipe(json.load(file), int(length))
    ours = datasets.load_from_disk(folder)
    schema, batches = stream_of(folder)
    with tempfile.TemporaryDirectory() as scratch:
        theirs.save_to_disk(scratch)
        their_schema, their_batches = stream_of(scratch)
        same_rows = theirs[:] == ours[:]
    print(json.dumps({
        "rows": ours.num_rows, "their_rows": theirs.num_rows, "same_rows": same_rows,
        "same_types": schema.equals(their_schema) and ours.features == theirs.features,
        "types": ", ".join(f"{f.name}: {f.type}" for f in schema), "same_batches": batches == their_batches,
        "last": ours[ours.num_rows - 1], "sum": sum(sum(row) for row in ours["input_ids"])}))


main(*sys.argv[1:])
