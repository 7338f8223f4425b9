"""Reads a dataset as docs/data_format.md describes it, with the standard library alone, and prints what it found.

usage: read_from_document.py DIR     One JSON object: per split, the text of each document and its source.
"""

import json
import struct
import sys
from pathlib import Path

TYPES = {1: "B", 2: "H", 3: "I", 4: "Q", 5: "b", 6: "h", 7: "i", 8: "q", 9: "f", 10: "d"}


def read_shard(path):
    data = path.read_bytes()
    assert data[:8] == b"HRTHSHRD"
    version, header_bytes = struct.unpack_from("<II", data, 8)
    (file_bytes, block_bytes, num_tokens, num_documents, columns_offset, checksums_offset, num_blocks) = struct.unpack_from(
        "<7Q", data, 16
    )
    num_columns, reserved = struct.unpack_from("<II", data, 72)
    assert (version, header_bytes, reserved) == (1, 128, 0) and file_bytes == len(data)
    assert num_blocks == -(-(columns_offset - header_bytes) // block_bytes)
    assert checksums_offset == columns_offset + 112 * num_columns and file_bytes == checksums_offset + 8 * num_blocks
    columns = {"identity": data[80:96].hex(), "header_checksum": data[120:128][::-1].hex()}
    for i in range(num_columns):
        at = columns_offset + 112 * i
        name = data[at : at + 32].rstrip(b"\0").decode("ascii")
        element_type, axis, rank, _ = struct.unpack_from("<4I", data, at + 32)
        shape = struct.unpack_from("<4Q", data, at + 48)[:rank]
        rows, offset, size, _ = struct.unpack_from("<4Q", data, at + 80)
        assert offset % 64 == 0 and rows == (num_tokens if axis == 1 else num_documents) and shape == ()
        columns[name] = struct.unpack_from(f"<{rows}{TYPES[element_type]}", data, offset)
        assert size == struct.calcsize(TYPES[element_type]) * rows
    return columns


def main():
    folder = Path(sys.argv[1])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == "hearth dataset" and manifest["version"] == 1
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
