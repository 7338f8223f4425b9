# SPDX-License-Identifier: Apache-2.0
"""Reads a dataset as docs/data_format.md describes it, checks every checksum, and prints the content.

usage: read_from_document.py DIR     One JSON object: per split, the text of each document and its source. If the
       tokens are in other files: each document's ids. With weights: {"ids", "weights"} of each document.
"""

import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from xxh3 import xxh3_64, xxh3_128_hex  # noqa: E402

TYPES = {1: "B", 2: "H", 3: "I", 4: "Q", 5: "b", 6: "h", 7: "i", 8: "q", 9: "f", 10: "d"}


def read_shard(path):
    data = path.read_bytes()
    assert data[:8] == b"HRTHSHRD"
    version, header_bytes = struct.unpack_from("<II", data, 8)
    (file_bytes, block_bytes, num_tokens, num_documents,
     columns_offset, checksums_offset, num_blocks) = struct.unpack_from(
        "<7Q", data, 16
    )
    num_columns, reserved = struct.unpack_from("<II", data, 72)
    assert version in (1, 2) and (header_bytes, reserved) == (128, 0) and file_bytes == len(data)
    assert num_blocks == -(-(columns_offset - header_bytes) // block_bytes)
    assert checksums_offset == columns_offset + 112 * num_columns and file_bytes == checksums_offset + 8 * num_blocks
    assert xxh3_64(data[:120]) == struct.unpack_from("<Q", data, 120)[0]
    assert xxh3_64(data[columns_offset:]) == struct.unpack_from("<Q", data, 96)[0]
    for i, checksum in enumerate(struct.unpack_from(f"<{num_blocks}Q", data, checksums_offset)):
        begin = header_bytes + i * block_bytes
        assert xxh3_64(data[begin : min(begin + block_bytes, columns_offset)]) == checksum
    columns = {"identity": data[80:96].hex(), "header_checksum": data[120:128][::-1].hex()}
    for i in range(num_columns):
        at = columns_offset + 112 * i
        name = data[at : at + 32].rstrip(b"\0").decode("ascii")
        element_type, axis, rank, place = struct.unpack_from("<4I", data, at + 32)
        shape = struct.unpack_from("<4Q", data, at + 48)[:rank]
        rows, offset, size, _ = struct.unpack_from("<4Q", data, at + 80)
        assert shape == () and size == struct.calcsize(TYPES[element_type]) * rows
        assert axis == 3 or rows == (num_tokens if axis == 1 else num_documents)
        if place == 1:
            outside = (name, element_type, rows, offset, size)
            continue
        assert offset % 64 == 0
        columns[name] = struct.unpack_from(f"<{rows}{TYPES[element_type]}", data, offset)
    assert version == 2 or "outside_path" not in columns
    if version == 2:
        name, element_type, rows, offset, size = outside
        elsewhere = Path(bytes(columns["outside_path"]).decode()).read_bytes()
        assert (len(elsewhere),) == columns["outside_bytes"]
        blocks = [elsewhere[i : min(i + block_bytes, offset + size)] for i in range(offset, offset + size, block_bytes)]
        assert tuple(map(xxh3_64, blocks)) == columns["outside_checksums"]
        columns[name] = struct.unpack_from(f"<{rows}{TYPES[element_type]}", elsewhere, offset)
    return columns


def documents_of(columns, name="tokens"):
    ends = columns["document_ends"]
    return [columns[name][begin:end] for begin, end in zip((0,) + ends, ends)]


def weighted(folder, split):
    found = {"ids": [], "weights": []}
    for shard in split["shards"]:
        columns = read_shard(folder / shard["file"])
        if "counted_tokens" not in shard:
            assert "weights" not in columns
            columns["weights"] = (1,) * len(columns["tokens"])
        weights = columns["weights"]
        assert shard.get("counted_tokens", shard["tokens"]) == sum(w != 0 for w in weights)
        if "weight_sum" in shard:
            assert abs(shard["weight_sum"] - sum(weights)) < 1e-9 * len(weights)
        else:
            assert set(weights) <= {0, 1}
        found["ids"] += documents_of(columns)
        found["weights"] += documents_of(columns, "weights")
    return found


def main():
    folder = Path(sys.argv[1])
    raw = (folder / "manifest.json").read_bytes()
    manifest = json.loads(raw)
    assert manifest["format"] == "hearth dataset" and manifest["version"] in (1, 2, 3)
    end_of_checked = raw.rindex(b',\n  "checksum": ')
    assert manifest["checksum"] == f"{xxh3_64(raw[:end_of_checked]):016x}"
    if manifest["version"] == 3:
        print(json.dumps({split["name"]: weighted(folder, split) for split in manifest["splits"]}))
        return
    if manifest["version"] == 2:
        shards = {split["name"]: [read_shard(folder / shard["file"]) for shard in split["shards"]]
                  for split in manifest["splits"]}
        print(json.dumps({name: [ids for shard in of_split for ids in documents_of(shard)]
                          for name, of_split in shards.items()}))
        return
    assert manifest["tokenizer"]["hash"] == xxh3_128_hex(b"hearth tokenizer bytes: 256 bytes, bos 256, eos 257")
    found = {}
    for split in manifest["splits"]:
        documents = found[split["name"]] = []
        for shard in split["shards"]:
            columns = read_shard(folder / shard["file"])
            assert columns["identity"] == shard["identity"] and columns["header_checksum"] == shard["header_checksum"]
            begin = 0
            for end, size, source, offset in zip(
                columns["document_ends"], columns["text_bytes"], columns["source"], columns["source_offset"]
            ):
                tokens = columns["tokens"][begin:end]
                begin = end
                text = bytes(t for t in tokens if t < 256)
                assert len(text) == size
                entry = manifest["sources"][source]
                assert entry["size_bytes"] == size and entry["xxh3_128"] == xxh3_128_hex(text)
                held_out = xxh3_64(b"held out: " + entry["xxh3_128"].encode()) >> 11
                assert (held_out / 2**53 < manifest["options"]["validation"]) == (split["name"] == "validation")
                documents.append(
                    {
                        "text": text.decode("latin-1"),
                        "specials": [t for t in tokens if t >= 256],
                        "path": manifest["sources"][source]["path"],
                        "offset": offset,
                    }
                )
            assert begin == len(columns["tokens"]) == shard["tokens"]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
