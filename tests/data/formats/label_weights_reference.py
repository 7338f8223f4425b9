# SPDX-License-Identifier: Apache-2.0
"""Rows with label masks and weights, as `datasets`, pyarrow and GPT-NeoX's writer store them.

usage: label_weights_reference.py write FOLDER    writes files into FOLDER; prints their content as JSON
       label_weights_reference.py saved FOLDER    the result of load_from_disk(FOLDER), as JSON
       label_weights_reference.py indexed PREFIX  the sequences of PREFIX.bin and .idx, and their type, as JSON
"""

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import numpy  # noqa: E402

IGNORE = -100


def write_indexed(prefix, sequences, dtype):
    """As megatron/data/indexed_dataset.py of GPT-NeoX: MMIDIDX, version 1; 4 is int32, 8 uint16."""
    lengths = numpy.array([len(s) for s in sequences], dtype=numpy.int32)
    numpy.concatenate([numpy.array(s, dtype=dtype) for s in sequences]).tofile(prefix + ".bin")
    starts = numpy.concatenate([[0], numpy.cumsum(lengths[:-1], dtype=numpy.int64)]) * numpy.dtype(dtype).itemsize
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + numpy.uint64(1).tobytes())
        file.write(numpy.uint8({"int32": 4, "uint16": 8}[dtype]).tobytes())
        file.write(numpy.array([len(sequences), len(sequences) + 1], dtype=numpy.uint64).tobytes())
        file.write(lengths.tobytes() + starts.astype(numpy.int64).tobytes())
        file.write(numpy.arange(len(sequences) + 1, dtype=numpy.int64).tobytes())


def read_indexed(prefix):
    raw = open(prefix + ".idx", "rb").read()
    assert raw[:9] == b"MMIDIDX\x00\x00" and numpy.frombuffer(raw, numpy.uint64, 1, 9)[0] == 1
    dtype = {4: numpy.int32, 8: numpy.uint16}[raw[17]]
    n = int(numpy.frombuffer(raw, numpy.uint64, 1, 18)[0])
    lengths = numpy.frombuffer(raw, numpy.int32, n, 34)
    starts = numpy.frombuffer(raw, numpy.int64, n, 34 + 4 * n)
    tokens = numpy.fromfile(prefix + ".bin", dtype=dtype)
    itemsize = numpy.dtype(dtype).itemsize
    sequences = [tokens[s // itemsize : s // itemsize + length].tolist() for s, length in zip(starts, lengths)]
    print(json.dumps({"type": numpy.dtype(dtype).name, "sequences": sequences}))


def write(folder):
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    datasets.disable_progress_bars()
    rng = numpy.random.default_rng(7)
    ids, mask, weights = [], [], []
    for i in range(60):
        n = int(rng.integers(1, 40)) if i != 11 else 0
        ids.append(rng.integers(0, 500, n).tolist())
        prompt = int(rng.integers(0, n + 1))
        mask.append([0] * prompt + [1] * (n - prompt))
        weights.append((rng.integers(0, 5, n) / 4).tolist())
    labels = [[t if m else IGNORE for t, m in zip(*row)] for row in zip(ids, mask)]

    def column(kind):
        return datasets.Sequence(datasets.Value(kind))

    rows = {"input_ids": ids, "labels": labels, "completion_mask": mask, "loss_weights": weights}
    features = {"input_ids": column("int32"), "labels": column("int64"), "completion_mask": column("int8"),
                "loss_weights": column("float32")}
    datasets.Dataset.from_dict(rows, features=datasets.Features(features)).save_to_disk(os.path.join(folder, "saved"),
                                                                                        num_shards=2)
    pq.write_table(pa.table({
        "input_ids": pa.array(ids, pa.large_list(pa.uint16())),
        "labels": pa.array(labels, pa.list_(pa.int16())),
        "bools": pa.array([[bool(m) for m in row] for row in mask], pa.list_(pa.bool_())),
        "bytes": pa.array(mask, pa.large_list(pa.uint8())),
        "doubles": pa.array(weights, pa.list_(pa.float64())),
        "meta": pa.array([{"w": row, "x": "y"} for row in weights],
                         pa.struct([("w", pa.list_(pa.float32())), ("x", pa.string())])),
    }), os.path.join(folder, "rows.parquet"), row_group_size=17)

    texts = [{"prompt": f"question {i}? ", "completion": "answer " * (i % 4) + "\u00e9", "weight": i % 3 / 2,
              "good": i % 2 == 0} for i in range(20)]
    pq.write_table(pa.Table.from_pylist(texts), os.path.join(folder, "texts.parquet"))
    with open(os.path.join(folder, "texts.jsonl"), "w") as file:
        file.writelines(json.dumps({"meta": {"prompt": t["prompt"]}, **t}) + "\n" for t in texts)

    write_indexed(os.path.join(folder, "gold_text_document"), ids, "uint16")
    write_indexed(os.path.join(folder, "gold_text_label_document"), labels, "int32")
    bad(folder)
    print(json.dumps({"ids": ids, "mask": mask, "weights": weights, "texts": texts}))


def bad(folder):
    """Two rows each of `input_ids` and `w`: the second `w` is wrong, or the whole column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ints, floats, ids = pa.list_(pa.int64()), pa.list_(pa.float64()), [[7], [5, 6]]
    for name, rows, values, kind in [
        ("short", ids, [[7], [5]], ints), ("other", ids, [[7], [-100, 7]], ints), ("minus", ids, [[7], [-1, 6]], ints),
        ("null", ids, [[7], None], ints), ("null-inside", ids, [[7], [5, None]], ints),
        ("negative", ids, [[7], [1, -0.5]], floats),
        ("nan", ids, [[7], [1, float("nan")]], floats), ("inf", ids, [[7], [float("inf"), 1]], floats),
        ("strings", ids, [["7"], ["5", "6"]], pa.list_(pa.string())), ("single", ids, [1, 1], pa.float32()),
        ("text", ["a", "b"], [[1], [1]], floats), ("arrays", [[[1, 2]], [[3, 4]]], [1, 1], pa.float32()),
    ]:
        pq.write_table(pa.table({"input_ids": pa.array(rows), "w": pa.array(values, kind)}),
                       os.path.join(folder, f"bad-{name}.parquet"))
    pq.write_table(pa.table({"prompt": pa.array([b"a\xff"]), "completion": pa.array([b"\xe9b"])}),
                   os.path.join(folder, "bad-utf8.parquet"))


def saved(folder):
    import datasets

    dataset = datasets.load_from_disk(folder)
    print(json.dumps({"rows": dataset[:],
                      "types": {name: str(field.type)
                                for name, field in zip(dataset.column_names, dataset.data.schema)}}))


{"write": write, "saved": saved, "indexed": read_indexed}[sys.argv[1]](sys.argv[2])
