#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the GPU's libraries compile, and that hearth-train can load them anywhere.

Registered in CTest as kernels.nvcc, kernels.hipcc and kernels.graph. By hand:
    python3 tests/kernels/library_test.py BUILD_FOLDER hearth_cuda|hearth_hip|hearth_cuda_graph
Builds the target, which ordinary builds without a GPU leave out, and inspects the library. Needs no GPU.
"""

import ctypes
import os
import re
import subprocess
import sys
import unittest

SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libdl.so.2",
                    "libpthread.so.0", "librt.so.1"}
RUNTIME = {"hearth_cuda": r"$^", "hearth_hip": r"libamdhip64\.so\.\d+"}  # CUDA's runtime is linked statically
PLATFORM = {"hearth_cuda": r"CUDA \d+\.\d+", "hearth_hip": r"HIP \d+\.\d+"}


def output_of(*line):
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def dynamic_symbols(path, which):
    """`which`: --defined-only or --undefined-only."""
    return [line.split()[-1].split("@")[0] for line in output_of("nm", "--dynamic", which, path).splitlines()]


def needed_by(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", path))


class Library(unittest.TestCase):
    build = target = ""

    @classmethod
    def setUpClass(cls):
        done = subprocess.run(["cmake", "--build", cls.build, "--target", cls.target], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout[-8000:])
        cls.path = os.path.join(cls.build, "bin", f"lib{cls.target}.so")


class Kernels(Library):
    def test_it_needs_only_the_system_and_its_platforms_runtime(self):
        needed = set(needed_by(self.path)) - SYSTEM_LIBRARIES
        self.assertEqual([name for name in needed if not re.fullmatch(RUNTIME[self.target], name)], [])

    def test_its_one_symbol_is_the_table(self):
        symbols = dynamic_symbols(self.path, "--defined-only")
        self.assertEqual([name for name in symbols if not name.startswith("__")], ["hearth_gpu_kernels"])

    def test_it_loads_without_a_gpu_and_says_what_it_is(self):
        entry = ctypes.CDLL(self.path).hearth_gpu_kernels
        entry.restype = ctypes.POINTER(ctypes.c_uint32)
        table = entry()
        platform = ctypes.cast(table, ctypes.POINTER(ctypes.c_char_p))[1].decode()
        self.assertRegex(platform, f"^{PLATFORM[self.target]}$")
        self.assertGreater(table[0], 0)


class Graphs(Library):
    """Linked with LibTorch's CUDA half, which does not load without NVIDIA's libraries: inspected, not loaded."""

    def test_it_needs_only_the_system_and_libtorch(self):
        needed = set(needed_by(self.path)) - SYSTEM_LIBRARIES
        self.assertLessEqual(needed, {"libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so"})

    def test_its_entry_is_there(self):
        entries = [name for name in dynamic_symbols(self.path, "--defined-only") if name.startswith("hearth_")]
        self.assertRegex(" ".join(entries), r"^hearth_gpu_graphs_[0-9a-f]{8}$")

    def test_libtorch_and_its_runtime_have_all_that_it_calls(self):
        with open(os.path.join(self.build, "build.ninja"), encoding="utf-8") as rules:
            folder = re.search(r"(\S+)/libtorch_cuda\.so", rules.read()).group(1)
        there = set()
        for name in needed_by(self.path):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                there.update(dynamic_symbols(path, "--defined-only"))
        wanted = [s for s in dynamic_symbols(self.path, "--undefined-only") if re.match(r"_ZNK?(2at|3c10|5torch)", s)]
        self.assertGreater(len(wanted), 5)
        self.assertEqual(sorted(set(wanted) - there), [])


CASES = {"hearth_cuda": Kernels, "hearth_hip": Kernels, "hearth_cuda_graph": Graphs}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in CASES:
        sys.exit("usage: library_test.py BUILD_FOLDER " + "|".join(CASES))
    Library.build, Library.target = os.path.abspath(sys.argv[1]), sys.argv[2]
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(CASES[sys.argv[2]])
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
