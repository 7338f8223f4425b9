# SPDX-License-Identifier: Apache-2.0
"""XXH3 from the system's own library: hashes that are independent of ours."""

import ctypes


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


LIBRARY = ctypes.CDLL("libxxhash.so.0")
LIBRARY.XXH3_64bits.restype = ctypes.c_uint64
LIBRARY.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
LIBRARY.XXH3_128bits.restype = Hash128
LIBRARY.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh3_64(data):
    return LIBRARY.XXH3_64bits(data, len(data))


def xxh3_128_hex(data):
    digest = LIBRARY.XXH3_128bits(data, len(data))
    return f"{digest.high:016x}{digest.low:016x}"
