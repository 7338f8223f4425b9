# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's `datasets` on folders of save_to_disk.

usage: saved_dataset_reference.py write FOLDER   FOLDER/{many,dict,one,tokens,selected}, as this file says
       saved_dataset_reference.py read FOLDER    the result of load_from_disk(FOLDER), as JSON
"""

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import datasets  # noqa: E402
import pyarrow  # noqa: E402

datasets.disable_progress_bars()


def documents(first, end):
    return [f"document {i} " + "word " * (i % 17) for i in range(first, end)]


def write(folder):
    many = datasets.Dataset.from_dict({"text": documents(0, 2500), "id": list(range(2500))})
    many.save_to_disk(os.path.join(folder, "many"), num_shards=3)
    train = datasets.Dataset.from_dict({"text": documents(0, 20)})
    test = datasets.Dataset.from_dict({"text": documents(20, 30)})
    datasets.DatasetDict({"train": train, "test": test}).save_to_disk(os.path.join(folder, "dict"))
    datasets.DatasetDict({"train": train}).save_to_disk(os.path.join(folder, "one"))
    features = datasets.Features({"input_ids": datasets.Sequence(datasets.Value("int32"))})
    tokens = datasets.Dataset.from_dict({"input_ids": [[i, i + 1] for i in range(20)]}, features=features)
    tokens.save_to_disk(os.path.join(folder, "tokens"))
    many.select([9, 5, 7]).save_to_disk(os.path.join(folder, "selected"))


def lists_of(folder):
    """state.json and dataset_info.json as text, without the fingerprint and a list's type name, which may differ."""
    lists = []
    for name in ("state.json", "dataset_info.json"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        fingerprint = json.loads(text).get("_fingerprint")
        if fingerprint is not None:
            assert len(fingerprint) == 16 and int(fingerprint, 16) >= 0
            text = text.replace(fingerprint, "FINGERPRINT")
        lists.append(text.replace('"_type": "Sequence"', '"_type": "List"'))
    return lists


def read(folder):
    dataset = datasets.load_from_disk(folder)
    dataset.save_to_disk(folder + "-again")
    with open(os.path.join(folder, "data-00000-of-00001.arrow"), "rb") as file:
        stream = pyarrow.ipc.open_stream(file)
        schema = stream.schema
        batches = [batch.num_rows for batch in stream]
    with open(os.path.join(folder + "-again", "data-00000-of-00001.arrow"), "rb") as file:
        again = pyarrow.ipc.open_stream(file).schema
    assert schema.equals(again)
    kinds = [json.loads(s.metadata[b"huggingface"].decode().replace("Sequence", "List")) for s in (schema, again)]
    assert kinds[0] == kinds[1], kinds
    lists = [lists_of(folder), lists_of(folder + "-again")]
    print(json.dumps({"rows": dataset[:], "batches": batches, "types": ", ".join(f"{f.name}: {f.type}" for f in schema),
                      "same_lists": lists[0] == lists[1], "lists": lists}))


{"write": write, "read": read}[sys.argv[1]](sys.argv[2])
