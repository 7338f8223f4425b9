# SPDX-License-Identifier: Apache-2.0
"""Files of many kinds, each written by the library that defines its kind.

usage: kinds_reference.py FOLDER    FOLDER/NAME for each kind, and a packed tar archive, picture and gzip file
"""

import bz2
import gzip
import io
import lzma
import os
import pickle
import sqlite3
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

import numpy
import safetensors.numpy
import torch

TEXT = "".join(f"the sea is wide and blue, row {i}\n" for i in range(2000)).encode()


def png():
    """A picture of 64 x 64 random bytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + numpy.random.default_rng(1).bytes(64) for _ in range(64))
    header = struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("corpus/a.txt")
        info.size = len(TEXT)
        archive.addfile(info, io.BytesIO(TEXT))
    return out.getvalue()


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def torch_file(**options):
    out = io.BytesIO()
    torch.save({"weight": torch.ones(100)}, out, **options)
    return out.getvalue()


def numpy_file(save, array):
    out = io.BytesIO()
    save(out, array)
    return out.getvalue()


def database(folder):
    path = os.path.join(folder, "database")
    connection = sqlite3.connect(path)
    connection.execute("create table texts (text)")
    connection.executemany("insert into texts values (?)", [(f"row {i}",) for i in range(200)])
    connection.commit()
    connection.close()


def main(folder):
    office = [("[Content_Types].xml", "<Types/>"), ("word/document.xml", "<w:document/>" * 50)]
    random = numpy.random.default_rng(2)
    files = {
        "corpus.tar": tar(),
        "corpus.tar.gz": gzip.compress(tar()),
        "corpus.tar.xz": lzma.compress(tar()),
        "corpus.tgz.txt": gzip.compress(tar()),
        "corpus.zip": zipped([("a.txt", TEXT)]),
        "corpus.lzma": lzma.compress(TEXT, format=lzma.FORMAT_ALONE),
        "twice.jsonl.gz": gzip.compress(gzip.compress(TEXT)),
        "picture.png": png(),
        "picture.txt": png(),
        "picture.png.gz": gzip.compress(png()),
        "text.docx": zipped(office),
        "model.pt": torch_file(),
        "old.pt": torch_file(_use_new_zipfile_serialization=False),
        "object.pkl": pickle.dumps({"text": ["a"] * 10}),
        "model.safetensors": safetensors.numpy.save({"weight": numpy.ones((20, 20), numpy.float32)}),
        "arrays.npz": numpy_file(lambda out, array: numpy.savez(out, a=array), numpy.arange(10)),
        "array.npy.gz": gzip.compress(numpy_file(numpy.save, numpy.arange(1000))),
        "train.bin": random.integers(0, 50257, 5000).astype(numpy.uint16).tobytes(),
        "noise": random.bytes(2000),
        "wide.txt": TEXT.decode().encode("utf-16-le"),
        "wide.jsonl": ("\ufeff" + '{"text": "a"}\n' * 3).encode("utf-16-le"),
        "wider.txt": TEXT.decode().encode("utf-32"),
        "big.txt": ("\ufeff" + TEXT.decode()).encode("utf-16-be"),
        "chinese.txt": "\ufeff\u6d77\u5f88\u5bbd".encode("gb18030"),
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    database(folder)
    with open(os.path.join(folder, "program"), "wb") as file:
        file.write(open(sys.executable, "rb").read(200_000))
    for name, content in {"good.txt.xz": lzma.compress(TEXT[:30000]) + lzma.compress(TEXT[30000:]),
                          "good.txt.bz2": bz2.compress(TEXT[:30000]) + bz2.compress(TEXT[30000:])}.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    with open(os.path.join(folder, "good.txt"), "wb") as file:
        file.write(TEXT)
    if subprocess.run(["sh", "-c", "command -v lz4"], stdout=subprocess.DEVNULL).returncode == 0:
        subprocess.run(["lz4", "-q", "-f", os.path.join(folder, "good.txt"), os.path.join(folder, "corpus.lz4")])


main(sys.argv[1])
