# SPDX-License-Identifier: Apache-2.0
"""Writes token files in the layouts of Megatron's and GPT-NeoX's writers, with the standard library alone.

usage: indexed_reference.py < JSON    A list of [PREFIX, TYPE, LAYOUT, SEQUENCES]. TYPE: u8 i8 i16 i32 i64 u16 f32 f64;
       LAYOUT: neox, megatron, modes (Megatron's with a mode a sequence), legacy.
"""

import json
import struct
import sys

LETTERS = {"u8": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u16": "H", "f32": "f", "f64": "d"}
CODES = {"u8": 1, "i8": 2, "i16": 3, "i32": 4, "i64": 5, "f32": 6, "f64": 7, "u16": 8}


def write(prefix, kind, layout, sequences):
    size = struct.calcsize(LETTERS[kind])
    code = CODES[kind]
    if layout in ("megatron", "modes"):
        code = {6: 7, 7: 6}.get(code, code)
    lengths = [len(s) for s in sequences]
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    documents = list(range(len(lengths) + 1))
    with open(prefix + ".bin", "wb") as file:
        for s in sequences:
            file.write(struct.pack(f"<{len(s)}{LETTERS[kind]}", *s))
    with open(prefix + ".idx", "wb") as file:
        n = len(lengths)
        if layout == "legacy":
            file.write(b"TNTIDX\0\0" + struct.pack("<6Q", 1, code, size, n, n, n + 1))
            file.write(struct.pack(f"<{n + 1}q", *range(n + 1)))
            file.write(struct.pack(f"<{n + 1}q", *starts))
            file.write(struct.pack(f"<{n}q", *lengths) + struct.pack(f"<{n + 1}q", *documents))
        else:
            file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, n, n + 1))
            file.write(struct.pack(f"<{n}i", *lengths) + struct.pack(f"<{n}q", *[s * size for s in starts[:-1]]))
            file.write(struct.pack(f"<{n + 1}q", *documents))
            if layout == "modes":
                file.write(bytes(n))


if __name__ == "__main__":
    for job in json.load(sys.stdin):
        write(*job)
