# SPDX-License-Identifier: Apache-2.0
"""Spike arrays as tables: the arrays of a folder of .npy files, written by pyarrow and Hugging Face's `datasets`.

usage: array_columns_reference.py equal_bins FOLDER    .npy files that all have 45 time bins, and their metadata.jsonl
       array_columns_reference.py write FOLDER OUT     the arrays of FOLDER, sorted by name, with their labels, as
           OUT/{a.parquet,b.parquet,c.arrow,d.arrows,saved,saved.parquet}; `saved` is Array2D where all have the same
           number of time bins
       array_columns_reference.py labels OUT           rows with labels of other types, null, or not UTF-8
       array_columns_reference.py wrong OUT            rows that are not arrays, each of another source_dataset
       array_columns_reference.py zeros FILE           30 arrays of 1000 x 1000 zeros as Parquet, some kB
"""

import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
LABELS = ["subject_id", "session_id", "segment_id", "source_dataset"]


def equal_bins(folder):
    os.makedirs(folder)
    rng = np.random.default_rng(11)
    with open(f"{folder}/metadata.jsonl", "w", encoding="utf-8") as f:
        for i, n in enumerate([7, 16, 23, 64, 1, 40]):
            np.save(f"{folder}/row-{i}.npy", rng.poisson(0.4, size=(n, 45)).astype(np.uint8))
            labels = {name: f"{name} {i % 3}" for name in LABELS}
            f.write(json.dumps({"file_name": f"row-{i}.npy"} | labels) + "\n")


def rows_of(folder):
    with open(f"{folder}/metadata.jsonl", encoding="utf-8") as f:
        lines = sorted((json.loads(line) for line in f), key=lambda line: line["file_name"])
    return [{"spike_counts": np.ascontiguousarray(np.load(f"{folder}/{line['file_name']}"))}
            | {name: line[name] for name in LABELS} for line in lines]


def write(folder, out):
    import datasets

    datasets.disable_progress_bars()
    os.makedirs(out)
    rows = rows_of(folder)
    columns = {name: [row[name] for row in rows] for name in LABELS}
    lists = [row["spike_counts"].tolist() for row in rows]
    # The columns in several orders, and one that is never read.
    table = pa.table({"spike_counts": pa.array(lists, pa.list_(pa.list_(pa.uint8()))), **columns,
                      "n": range(len(rows))})
    pq.write_table(table, f"{out}/a.parquet", row_group_size=2, compression="zstd")
    wide = pa.table({**columns, "spike_counts": pa.array(lists, pa.large_list(pa.list_(pa.int64())))})
    pq.write_table(wide, f"{out}/b.parquet", data_page_size=300)
    with pa.ipc.new_file(f"{out}/c.arrow", wide.schema) as f:
        f.write_table(wide, max_chunksize=4)
    with pa.ipc.new_stream(f"{out}/d.arrows", table.schema) as f:
        f.write_table(table, max_chunksize=1)
    bins = {row["spike_counts"].shape[1] for row in rows}
    feature = datasets.Array2D((None, bins.pop()), "uint8") if len(bins) == 1 else datasets.List(
        datasets.List(datasets.Value("uint8")))
    features = datasets.Features({"spike_counts": feature} | {name: datasets.Value("string") for name in LABELS})
    dataset = datasets.Dataset.from_list([row | {"spike_counts": row["spike_counts"].tolist()} for row in rows],
                                         features)
    dataset.save_to_disk(f"{out}/saved", num_shards=3)
    dataset.to_parquet(f"{out}/saved.parquet")
    again = datasets.load_from_disk(f"{out}/saved")
    for row, stored in zip(rows, again):  # as the repositories read it
        assert np.array_equal(np.array(stored["spike_counts"], dtype=np.uint8).reshape(row["spike_counts"].shape),
                              row["spike_counts"])


def labels(out):
    os.makedirs(out)
    counts = pa.array([[[1, 2]], [[3, 4]], [[5, 6]]], pa.list_(pa.list_(pa.uint8())))
    table = pa.table({"spike_counts": counts, "subject_id": pa.array([7, None, -1], pa.int32()),
                      "session_id": pa.array(["a", None, "a"]).dictionary_encode(),
                      "segment_id": pa.array([b"x", b"", b"y"], pa.large_binary())})
    pq.write_table(table, f"{out}/good.parquet")
    with pa.ipc.new_stream(f"{out}/good.arrows", table.schema) as f:
        f.write_table(table)
    four = pa.array([[[1]], [[2]], [[3]], [[255]]], counts.type)
    bad = pa.table({"spike_counts": four, "subject_id": pa.array([b"x", b"\xffy", b"z", b"\xff"], pa.binary())})
    pq.write_table(bad, f"{out}/bad.parquet")
    pq.write_table(pa.table({"spike_counts": counts, "segment_id": [1.5, 2.5, 3.5]}), f"{out}/float.parquet")


def wrong(out):
    os.makedirs(out)
    rows = [[[1, 2], [3, 4]], [[1, 2], [3]], None, [[1, 2], None], [[1, None]], [[-1]], [[7], [256]],
            [[0, 9], [255, 3]], [], [[1] * 101] * 10]
    names = ["good", "ragged", "null", "null neuron", "null count", "negative", "large", "bos", "nobody", "long"]
    table = pa.table({"spike_counts": pa.array(rows, pa.list_(pa.list_(pa.int16()))), "source_dataset": names})
    pq.write_table(table, f"{out}/x.parquet")
    with pa.ipc.new_file(f"{out}/x.arrow", table.schema) as f:
        f.write_table(table)
    deep = pa.array([[[[1]]]], pa.list_(pa.list_(pa.list_(pa.uint8()))))
    floats = pa.array([[[1.0]]], pa.list_(pa.list_(pa.float32())))
    inside = pa.array([[{"counts": [[1]]}]], pa.list_(pa.struct([("counts", pa.list_(pa.list_(pa.uint8())))])))
    pq.write_table(pa.table({"deep": deep, "floats": floats, "inside": inside, "ids": [[1]], "text": ["t"]}),
                   f"{out}/other.parquet")


def zeros(path):
    neurons = pa.ListArray.from_arrays(np.arange(0, 1_000_001, 1000, dtype=np.int32), np.zeros(1_000_000, np.uint8))
    array = pa.ListArray.from_arrays(np.array([0, 1000], np.int32), neurons)
    with pq.ParquetWriter(path, pa.schema([("spike_counts", array.type)]), compression="zstd") as f:
        f.write_table(pa.table({"spike_counts": pa.chunked_array([array] * 30)}))


if __name__ == "__main__":
    commands = [equal_bins, write, labels, wrong, zeros]
    {command.__name__: command for command in commands}[sys.argv[1]](*sys.argv[2:])
