#!/usr/bin/env python3
"""Does a GPU's compiler take the kernels, and is the library what hearth-train can load anywhere?

Registered in CTest as kernels.nvcc and kernels.hipcc. By hand:
    python3 tests/kernels/library_test.py BUILD_FOLDER hearth_cuda|hearth_hip
Builds the target, which is no part of an ordinary build where there is no GPU, and looks at the library. Needs no GPU.
"""

import ctypes
import os
import re
import subprocess
import sys
import unittest

SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0",
                    "librt.so.1"}
RUNTIME = {"hearth_cuda": r"$^", "hearth_hip": r"libamdhip64\.so\.\d+"}  # CUDA's is linked statically
PLATFORM = {"hearth_cuda": r"CUDA \d+\.\d+", "hearth_hip": r"HIP \d+\.\d+"}


def output_of(*line):
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


class Library(unittest.TestCase):
    build = target = ""

    @classmethod
    def setUpClass(cls):
        done = subprocess.run(["cmake", "--build", cls.build, "--target", cls.target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout[-8000:])
        cls.path = os.path.join(cls.build, "bin", f"lib{cls.target}.so")

    def test_it_needs_only_the_system_and_its_platforms_runtime(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", self.path)))
        self.assertEqual([name for name in needed - SYSTEM_LIBRARIES if not re.fullmatch(RUNTIME[self.target], name)], [])

    def test_its_one_symbol_is_the_table(self):
        symbols = [line.split()[-1] for line in output_of("nm", "--dynamic", "--defined-only", self.path).splitlines()]
        self.assertEqual([name for name in symbols if not name.startswith("__")], ["hearth_gpu_kernels"])

    def test_it_loads_without_a_gpu_and_says_what_it_is(self):
        entry = ctypes.CDLL(self.path).hearth_gpu_kernels
        entry.restype = ctypes.POINTER(ctypes.c_uint32)
        table = entry()
        platform = ctypes.cast(table, ctypes.POINTER(ctypes.c_char_p))[1].decode()
        self.assertRegex(platform, f"^{PLATFORM[self.target]}$")
        self.assertGreater(table[0], 0)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in RUNTIME:
        sys.exit("usage: library_test.py BUILD_FOLDER hearth_cuda|hearth_hip")
    Library.build, Library.target = os.path.abspath(sys.argv[1]), sys.argv[2]
    unittest.main(argv=[sys.argv[0]])
