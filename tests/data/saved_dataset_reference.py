"""Hugging Face's `datasets` on folders of save_to_disk.

usage: saved_dataset_reference.py write FOLDER   FOLDER/{many,dict,one,tokens,selected}, as this file says
       saved_dataset_reference.py read FOLDER    what load_from_disk makes of FOLDER, as JSON
"""

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import datasets  # noqa: E402

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
    tokens = datasets.Dataset.from_dict({"input_ids": [[i, i + 1] for i in range(20)]},
                                        features=datasets.Features({"input_ids": datasets.Sequence(datasets.Value("int32"))}))
    tokens.save_to_disk(os.path.join(folder, "tokens"))
    many.select([9, 5, 7]).save_to_disk(os.path.join(folder, "selected"))


def read(folder):
    dataset = datasets.load_from_disk(folder)
    print(json.dumps({"features": dataset.features.to_dict(), "rows": dataset[:], "files": len(dataset.cache_files)}))


{"write": write, "read": read}[sys.argv[1]](sys.argv[2])
