# SPDX-License-Identifier: Apache-2.0
"""Rules about what was built: every source is compiled, and hearth stays free of LibTorch and of small shared libraries."""

import json
import os
import re
import subprocess

from source_rules import CORE, OBJECTS, TEST_HOOKS

# What any Debian 12 or newer has without asking. Everything else is linked statically.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}


def needed_libraries(binary):
    text = subprocess.run(["readelf", "--dynamic", binary], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def undefined_symbols(archive):
    return subprocess.run(["nm", "--undefined-only", archive], check=True, capture_output=True, text=True).stdout


def libraries_of_hearth(needed):
    """`needed`: the libraries that bin/hearth asks the loader for."""
    return [f"bin/hearth:1: needs {name}" for name in needed if name not in SYSTEM_LIBRARIES]


def symbols_of_core(symbols):
    """`symbols`: nm's list for libhearth_core.a. Mangled names of at:: and c10:: start with their length."""
    wanted = sorted(set(re.findall(r"\b_ZNK?(?:2at|3c10|5torch)\w*", symbols)))
    return [f"libhearth_core.a:1: wants {name} of LibTorch" for name in wanted[:5]]


def test_hooks_in_binaries(contents):
    """`contents`: name in bin/ -> its bytes, symbols and strings among them."""
    found = [(name, TEST_HOOKS.search(data.decode("latin-1"))) for name, data in sorted(contents.items())]
    return [f"bin/{name}:1: has {match.group()!r} of the tests" for name, match in found if match]


# Sources of one preset alone.
OF_A_PRESET = {"tests/fuzz/libfuzzer.cpp"}  # `fuzz`


def every_source_is_built(tree, compiled, with_torch):
    """`compiled`: the paths in compile_commands.json. Without LibTorch only hearth_core's half is expected, without Arrow
    nothing of its folder."""
    problems = []
    expected = CORE + ["main.cpp"] + [folder for folder in OBJECTS if any(path.startswith(f"src/{folder}/") for path in compiled)]
    for path, _ in tree.select((".cpp", ".cu"), "src/", "tests/", "bench/"):
        folder = path.split("/")[1]
        if folder in expected or with_torch and folder not in OBJECTS:
            if path not in compiled and path not in OF_A_PRESET:
                problems.append(f"{path}:1: nothing compiles it")
    return problems


def compiled_paths(root, build):
    """Files of compile_commands.json, and those that CMake's lists of sources compiled together include."""
    paths = set()
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        compiled = [entry["file"] for entry in json.load(file)]
    for path in compiled:
        if "/Unity/unity_" in path:
            with open(path, encoding="utf-8") as file:
                paths.update(re.findall(r'^#include "(/[^"]+)"', file.read(), re.MULTILINE))
        else:
            paths.add(path)
    return {os.path.relpath(path, root) for path in paths}


def cache_value(build, name):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        match = re.search(rf"^{name}:\w+=(.*)$", file.read(), re.MULTILINE)
    return match.group(1) if match else ""
