# SPDX-License-Identifier: Apache-2.0
"""Parquet and Arrow files of every kind, written by pyarrow, and their rows.

usage: columns_reference.py FOLDER     Writes files into FOLDER; prints a JSON a line: {"file", "keys", "join_first",
"rows"}. A row is a string, a list of ids, or {"problem": NAME}.
"""

import json
import os
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = sys.argv[1]
RANDOM = random.Random(5)
WORDS = ["hearth", "winter,", "\u00e9t\u00e9", "\U0001f525", "low\n", "", "red", "\u4e2d\u6587"]


def texts(count, longest=40):
    return [f"{i} " + " ".join(RANDOM.choices(WORDS, k=RANDOM.randint(0, longest))) for i in range(count)]


def case(file, rows, keys=("text",), join_first=False):
    print(json.dumps({"file": file, "keys": list(keys), "join_first": join_first, "rows": rows}))


def write_parquet(name, table, rows, keys=("text",), **options):
    pq.write_table(table, os.path.join(FOLDER, name), **options)
    case(name, rows, keys)


def write_ipc(name, batches, rows, keys=("text",), kind=None, **options):
    for ending, writer in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
        if kind in (None, ending):
            with pa.OSFile(os.path.join(FOLDER, f"{name}.{ending}"), "wb") as file:
                with writer(file, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
                    for batch in batches:
                        out.write_batch(batch)
            case(f"{name}.{ending}", rows, keys)


def batches_of(array, rows_a_batch=7, name="text"):
    """Batches that begin in the middle of the array's buffers, one of them empty, with another column."""
    table = pa.table({"id": pa.array(range(len(array))), name: array})
    batches = table.to_batches(max_chunksize=rows_a_batch)
    return batches[:1] + [batches[0].slice(0, 0)] + batches[1:]


def every_type_of_text():
    rows = texts(60)
    rows[17] = None
    expected = [{"problem": "missing_key"} if row is None else row for row in rows]
    data = [None if row is None else row.encode() for row in rows]
    for type_ in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()):
        array = pa.array(rows if "string" in str(type_) else data, type_)
        write_ipc(f"text-{type_}", batches_of(array), expected)
        write_parquet(f"text-{type_}.parquet", pa.table({"text": array}), expected, row_group_size=13)
    repeated = [RANDOM.choice(["one", "two", "", None, "\u00e9"]) for _ in range(60)]
    expected = [{"problem": "missing_key"} if row is None else row for row in repeated]
    for index in (pa.int8(), pa.uint16(), pa.int64()):
        array = pa.array(repeated).dictionary_encode().cast(pa.dictionary(index, pa.string()))
        write_ipc(f"dictionary-{index}", batches_of(array), expected)
    write_parquet("dictionary.parquet", pa.table({"text": pa.array(repeated).dictionary_encode()}), expected)
    parts = [["a", "b"], ["a", "b", "c"], ["d", "c"]]  # the dictionary grows, and is replaced
    batches = [pa.record_batch({"text": pa.array(part).dictionary_encode()}) for part in parts]
    flat = [text for part in parts for text in part]
    write_ipc("deltas", batches, flat, kind="arrows", emit_dictionary_deltas=True)
    write_ipc("nothing", [pa.record_batch({"text": pa.nulls(2)})], [{"problem": "missing_key"}] * 2)


def every_type_of_ids():
    rows = [[RANDOM.randint(0, 120) for _ in range(RANDOM.randint(0, 9))] for _ in range(50)] + [None, [127]]
    expected = [{"problem": "missing_key"} if row is None else row for row in rows]
    lists = {"list": pa.list_, "large": pa.large_list, "view": pa.list_view, "large-view": pa.large_list_view}
    for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        for name, list_type in lists.items():
            array = pa.array(rows, list_type(type_))
            write_ipc(f"ids-{name}-{type_}", batches_of(array, name="input_ids"), expected, ["input_ids"])
            if "view" not in name:
                write_parquet(f"ids-{name}-{type_}.parquet", pa.table({"input_ids": array}), expected, ["input_ids"],
                              row_group_size=9)
        fixed = [[i, 2, 3] for i in range(40)]
        array = pa.array(fixed, pa.list_(type_, 3))
        write_ipc(f"ids-fixed-{type_}", batches_of(array, name="input_ids"), fixed, ["input_ids"])
        write_parquet(f"ids-fixed-{type_}.parquet", pa.table({"input_ids": array}), fixed, ["input_ids"])
    wrong = [[1, 2], [3, -1], [1 << 32], [0xFFFFFFFF], [4, None], []]
    expected = [[1, 2]] + [{"problem": "wrong_type"}] * 2 + [[0xFFFFFFFF], {"problem": "wrong_type"}, []]
    array = pa.array(wrong, pa.list_(pa.int64()))
    write_ipc("ids-wrong", batches_of(array, name="input_ids"), expected, ["input_ids"])
    write_parquet("ids-wrong.parquet", pa.table({"input_ids": array}), expected, ["input_ids"])


def every_type_of_arrays():
    """Lists of lists of counts: neurons, each with its time bins."""
    shapes = [(RANDOM.randint(1, 7), RANDOM.randint(0, 12)) for _ in range(30)] + [(3, 0), (0, 0), (1, 40)]
    rows = [[[RANDOM.randint(0, 120) for _ in range(t)] for _ in range(n)] for n, t in shapes] + [None, [[127]]]
    expected = [{"problem": "missing_key"} if row is None else row for row in rows]
    lists = {"list": pa.list_, "large": pa.large_list, "view": pa.list_view, "large-view": pa.large_list_view}
    types = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    for i, type_ in enumerate(types):
        outer, inner = list(lists)[i % 4], list(lists)[(i // 2 + i) % 4]
        for a, b in ((outer, inner), ("list", "list"), (inner, outer)):
            array = pa.array(rows, lists[a](lists[b](type_)))
            name = f"arrays-{a}-{b}-{type_}"
            write_ipc(name, batches_of(array, name="spike_counts"), expected, ["spike_counts"])
            if "view" not in a + b:
                write_parquet(f"{name}.parquet", pa.table({"spike_counts": array}), expected, ["spike_counts"],
                              row_group_size=9)
        fixed = [[[i, 2, k] for k in range(5)] for i in range(20)]
        for name, array_type in (("inner", pa.list_(pa.list_(type_, 3))), ("both", pa.list_(pa.list_(type_, 3), 5)),
                                 ("outer", pa.list_(pa.list_(type_), 5))):
            array = pa.array(fixed, array_type)
            name = f"arrays-fixed-{name}-{type_}"
            write_ipc(name, batches_of(array, name="spike_counts"), fixed, ["spike_counts"])
            write_parquet(f"{name}.parquet", pa.table({"spike_counts": array}), fixed, ["spike_counts"])
    table = pa.table({"rec": pa.array([None if row is None else {"id": 7, "counts": row} for row in rows],
                                      pa.struct([("id", pa.int8()), ("counts", pa.list_(pa.list_(pa.uint8())))]))})
    write_parquet("arrays-struct.parquet", table, expected, ["rec.counts"], row_group_size=9)
    write_ipc("arrays-struct", table.to_batches(max_chunksize=5), expected, ["rec.counts"])
    # Neurons that are views of the same counts, out of order.
    values = pa.array([1, 2, 3, 4, 5, 6], pa.uint8())
    neurons = pa.ListViewArray.from_arrays(pa.array([4, 0, 2, 0], pa.int32()), pa.array([2, 2, 2, 2], pa.int32()),
                                           values)
    arrays = pa.ListViewArray.from_arrays(pa.array([2, 0, 1], pa.int32()), pa.array([2, 4, 1], pa.int32()), neurons)
    write_ipc("arrays-views", [pa.record_batch({"spike_counts": arrays})],
              [[[3, 4], [1, 2]], [[5, 6], [1, 2], [3, 4], [1, 2]], [[1, 2]]], ["spike_counts"])
    wrong = [[[1, 2], [3, 4]], [[1, 2], [3]], [[1], [2, 3]], [[1, 2], None], [[1, None]], [[-1]], [[255], [256]],
             [[255]]]
    expected = [wrong[0]] + [{"problem": "wrong_type"}] * 6 + [wrong[7]]
    array = pa.array(wrong, pa.list_(pa.list_(pa.int16())))
    write_ipc("arrays-wrong", batches_of(array, name="spike_counts"), expected, ["spike_counts"])
    write_parquet("arrays-wrong.parquet", pa.table({"spike_counts": array}), expected, ["spike_counts"])
    counts = [[[RANDOM.choice([0, 0, 0, 1, 2]) for _ in range(50)] for _ in range(8)] for _ in range(40)]
    table = pa.table({"spike_counts": pa.array(counts, pa.list_(pa.list_(pa.uint8()))),
                      "subject_id": [f"s{i % 3}" for i in range(40)], "source_dataset": ["ibl"] * 40})
    write_parquet("arrays-packed.parquet", table, counts, ["spike_counts"], row_group_size=9, compression="zstd",
                  data_page_size=600, write_page_checksum=True)
    write_ipc("arrays-packed", table.to_batches(max_chunksize=9), counts, ["spike_counts"], compression="lz4")


def nested():
    rows = [{"meta": {"text": "a", "n": 1}, "files": [{"path": "p", "text": "x"}, {"path": "q", "text": "y"}],
             "parts": ["one", "two"], "a.b": "literal", "a": {"b": "dotted"}, "deep": {"ids": [1, 2]}},
            {"meta": {"text": "", "n": None}, "files": [], "parts": [], "a.b": "", "a": {"b": ""}, "deep": {"ids": []}},
            {"meta": {"text": None, "n": 2}, "files": [{"path": "p", "text": None}], "parts": ["one", None],
             "a.b": None, "a": None, "deep": {"ids": None}},
            {"meta": None, "files": None, "parts": None, "a.b": "z", "a": {"b": None}, "deep": None},
            {"meta": {"text": "b", "n": 3}, "files": [{"path": "", "text": "only"}], "parts": ["\u00e9"], "a.b": "y",
             "a": {"b": "w"}, "deep": {"ids": [7]}}]
    missing = {"problem": "missing_key"}
    wanted = [(["meta.text"], ["a", "", missing, missing, "b"], False),
              (["files.text"], ["x\n\ny", "", missing, missing, "only"], False),
              (["files.text"], ["\n\nx\n\ny", "", missing, missing, "\n\nonly"], True),
              (["parts"], ["one\n\ntwo", "", missing, missing, "\u00e9"], False),
              (["a.b"], ["literal", "", missing, "z", "y"], False),
              (["deep.ids"], [[1, 2], [], missing, missing, [7]], False),
              (["meta.text", "parts"], ["a\n\none\n\ntwo", "", missing, missing, "b\n\n\u00e9"], False)]
    table = pa.Table.from_pylist(rows * 5)
    for name, write in (("nested.parquet", lambda path: pq.write_table(table, path, row_group_size=6)),
                        ("nested.arrow", lambda path: pa.ipc.new_file(path, table.schema)),
                        ("nested.arrows", lambda path: pa.ipc.new_stream(path, table.schema))):
        out = write(os.path.join(FOLDER, name))
        if out is not None:
            with out:
                out.write_table(table, max_chunksize=4)
        for keys, expected, join_first in wanted:
            case(name, expected * 5, keys, join_first)


def compressions_and_encodings():
    rows = texts(300)
    ids = [[RANDOM.randint(0, 1 << 31) for _ in range(RANDOM.randint(0, 30))] for _ in range(300)]
    table = pa.table({"text": rows, "input_ids": pa.array(ids, pa.list_(pa.int64()))})
    for compression in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
        for version in ("1.0", "2.0"):
            name = f"packed-{compression}-{version}.parquet"
            write_parquet(name, table, rows, row_group_size=70, compression=compression, data_page_version=version,
                          data_page_size=600, write_page_checksum=True)
            case(name, ids, ["input_ids"])
    for encoding in ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        write_parquet(f"{encoding}.parquet", table, rows, use_dictionary=False,
                      column_encoding={"text": encoding, "input_ids.list.element": "DELTA_BINARY_PACKED"})
    for compression in ("lz4", "zstd"):
        write_ipc(f"packed-{compression}", table.to_batches(max_chunksize=70), rows, compression=compression)
        case(f"packed-{compression}.arrow", ids, ["input_ids"])
    empty = table.slice(0, 0)
    write_parquet("empty.parquet", empty, [])
    write_ipc("empty", [pa.record_batch({"text": pa.array([], pa.string())})], [])


def bytes_that_are_no_text():
    rows = [b"good", b"b\xffad\xc3", b"", b"\xed\xa0\x80"]
    expected = ["good", {"problem": "not_unicode", "text": "b\ufffdad\ufffd"}, "",
                {"problem": "not_unicode", "text": "\ufffd\ufffd\ufffd"}]
    write_parquet("bytes.parquet", pa.table({"text": pa.array(rows, pa.binary())}), expected)
    # A column of strings whose bytes are not UTF-8: Arrow does not check.
    array = pa.array(rows, pa.binary())
    strings = pa.Array.from_buffers(pa.string(), len(array), array.buffers())
    write_parquet("strings.parquet", pa.table({"text": strings}), expected)
    write_ipc("strings", [pa.record_batch({"text": strings})], expected)


def one_text_many_times():
    """A file of 30 kB whose column of strings has 4 GB."""
    text = "x" * 1_000_000
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), [text])
    pq.write_table(pa.table({"text": rows}), os.path.join(FOLDER, "repeated.parquet"), compression="zstd",
                   store_schema=False)


for write_cases in (every_type_of_text, every_type_of_ids, every_type_of_arrays, nested, compressions_and_encodings,
                    bytes_that_are_no_text, one_text_many_times):
    write_cases()
