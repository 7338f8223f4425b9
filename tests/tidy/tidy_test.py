#!/usr/bin/env python3
"""Keeps the promises that a compiler does not: include order, sizes, what is linked, what the documents name.

Registered in CTest as tidy.sources, tidy.build and tidy.documents. By hand:
    python3 tests/tidy/tidy_test.py sources|build|documents [BUILD_FOLDER]
Each rule first has to find the fault in a small wrong tree before it judges the real one.
"""

import json
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import build_rules  # noqa: E402
import doc_rules  # noqa: E402
import source_rules  # noqa: E402
from source_rules import Tree  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build", "release")
TOP = ("src", "tests", "docs", "scripts", "cmake", "configs", "bench", ".ci")
TEXT = (".cpp", ".h", ".cu", ".py", ".sh", ".cmake", ".txt", ".md", ".toml", ".json", "run", "LICENSE", ".clang-format",
        ".editorconfig", ".gitignore")


def read_tree():
    files = {}

    def read(path):
        if path.endswith(TEXT):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                files[path] = file.read()

    for name in sorted(os.listdir(ROOT)):
        if os.path.isfile(os.path.join(ROOT, name)):
            read(name)
    for top in TOP:
        for folder, folders, names in os.walk(os.path.join(ROOT, top)):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            for name in names:
                read(os.path.relpath(os.path.join(folder, name), ROOT))
    return Tree(files)


class Case(unittest.TestCase):
    def none(self, problems):
        if problems:
            self.fail("\n" + "\n".join(problems))

    def finds(self, rule, files, fault, *more):
        """The rule names `fault` in a tree of `files`."""
        problems = rule(Tree(files), *more)
        self.assertTrue(any(fault in problem for problem in problems), f"{rule.__name__} misses {fault!r}: {problems}")


class Sources(Case):
    def test_the_repository_keeps_every_rule_about_sources(self):
        tree = read_tree()
        self.assertGreater(len(tree.files), 40)
        self.none([problem for rule in source_rules.RULES for problem in rule(tree)])

    def test_an_include_to_the_right_in_the_table_is_found(self):
        ops = {"src/ops/cpu/gemm.h": "#pragma once\n", "src/data/batch/loader.h": "#pragma once\n"}
        self.finds(source_rules.include_order, {"src/base/a.cpp": '#include "ops/cpu/gemm.h"\n', **ops}, "base may not include")
        self.finds(source_rules.include_order, {"src/model/a.cpp": '#include "data/batch/loader.h"\n', **ops}, "model may not include")
        self.finds(source_rules.include_order, {"src/main.cpp": '#include "ops/cpu/gemm.h"\n', **ops}, "may not include")
        self.finds(source_rules.include_order, {"src/new/a.cpp": '#include "ops/cpu/gemm.h"\n', **ops}, "not in the include table")
        self.finds(source_rules.include_order, {"src/data/a.cpp": '#include "data/gone.h"\n', **ops}, "not a path")
        self.finds(source_rules.include_order, {"src/data/a.cpp": '#include "columnar/a.h"\n', "src/columnar/a.h": ""}, "data may not include")
        self.finds(source_rules.include_order, {"src/columnar/a.cpp": '#include "base/a.h"\n', "src/base/a.h": ""}, "columnar may not")
        self.finds(source_rules.include_order, {"src/kernels/a.cu": '#include "base/a.h"\n', "src/base/a.h": ""}, "kernels may not")
        self.none(source_rules.include_order(Tree({"src/train/a.cpp": '#include "data/batch/loader.h"\n#include "ops/cpu/gemm.h"\n', **ops})))

    def test_heavy_headers_in_the_wrong_place_are_found(self):
        rule = source_rules.heavy_headers
        self.finds(rule, {"tests/ops/a_test.cpp": "#include <torch/torch.h>\n"}, "torch/torch.h")
        self.finds(rule, {"src/ops/a.cpp": "#include <ATen/ATen.h>\n"}, "ATen/ATen.h")
        self.finds(rule, {"src/model/a.cpp": "#include <ATen/ops/mm.h>\n"}, "only src/ops/")
        self.finds(rule, {"src/data/a.h": "#include <ATen/core/Tensor.h>\n"}, "knows no LibTorch")
        self.finds(rule, {"src/data/a.cpp": "#include <arrow/api.h>\n"}, "only src/columnar/")
        self.finds(rule, {"src/config/a.h": "#include <nlohmann/json.hpp>\n"}, "belongs in a .cpp")
        self.finds(rule, {"src/config/a.cpp": "#include <toml++/toml.h>\n", "src/config/b.cpp": "#include <toml++/toml.h>\n"}, "already")
        self.none(rule(Tree({"src/ops/a.cpp": "#include <ATen/ops/mm.h>\n", "src/data/b.cpp": "#include <nlohmann/json.hpp>\n"})))

    def test_long_files_and_functions_are_found(self):
        self.finds(source_rules.file_length, {"src/a.cpp": "x\n" * 401}, "401 lines")
        body = "void f() {\n" + "  x();\n" * 69 + "}\n"
        self.finds(source_rules.function_length, {"src/a.cpp": body}, "function of 71 lines")
        self.none(source_rules.function_length(Tree({"src/a.cpp": body.replace("  x();\n", "", 1) * 2})))
        self.none(source_rules.function_length(Tree({"src/a.cpp": body.replace("void f() {", "struct S {")})))

    def test_unplain_text_is_found(self):
        rule = source_rules.plain_text
        for text, fault in (("\u00e9\n", "ASCII"), ("\tx\n", "tab"), ("x \n", "blanks"), ("x", "newline"), ("x\n\n", "newline")):
            self.finds(rule, {"src/a.cpp": text}, fault)
        self.none(rule(Tree({"src/a.cpp": "x\n"})))

    def test_promises_machine_paths_names_and_flags_are_found(self):
        self.finds(source_rules.promises_and_machines, {"src/a.cpp": "// TO" + "DO: later\n"}, "promise")
        self.finds(source_rules.promises_and_machines, {"docs/a.md": "see /wo" + "rk/x\n"}, "one machine")
        self.finds(source_rules.names, {"src/data/file_util.cpp": ""}, "says nothing")
        self.finds(source_rules.names, {"src/data/a.h": "int x;\n"}, "pragma once")
        self.finds(source_rules.build_flags, {"src/CMakeLists.txt": "add_compile_options(-march=native)\n"}, "-march=native")

    def test_a_hook_for_tests_in_the_product_is_found(self):
        rule = source_rules.test_hooks
        self.finds(rule, {"src/base/a.cpp": 'x();\ngetenv("HEARTH_FAILPOINT");\n'}, "a.cpp:2: FAILPOINT")
        self.finds(rule, {"src/ops/a.h": "class EmulatedGpu;\n"}, "Emulat")
        self.none(rule(Tree({"tests/support/a.h": "namespace failpoint {\n"})))

    def test_a_reader_that_leaves_its_writer_is_found(self):
        rule = source_rules.readers_that_leave
        self.finds(rule, {"scripts/a.sh": "sort x |\n  head -n 5\n"}, "a.sh:1: head leaves")
        self.finds(rule, {"scripts/a.sh": "x\nldconfig -p | grep -q y\n"}, "a.sh:2: grep -q")
        self.finds(rule, {"scripts/a.sh": "sort x | sed 1q\n"}, "sed 1q")
        self.none(rule(Tree({"scripts/a.sh": "sort x | sed -n 1,5p\ngrep -q x file || head -n 1 file\ny | grep x >/dev/null\n"})))


class Build(Case):
    def test_the_build_compiles_every_source_and_hearth_links_only_system_libraries(self):
        with_torch = build_rules.cache_value(BUILD, "HEARTH_TORCH") == "ON"
        sanitized = build_rules.cache_value(BUILD, "HEARTH_SANITIZE") != ""
        self.none(build_rules.every_source_is_built(read_tree(), build_rules.compiled_paths(ROOT, BUILD), with_torch))
        if not sanitized:
            self.none(build_rules.libraries_of_hearth(build_rules.needed_libraries(os.path.join(BUILD, "bin", "hearth"))))
        self.none(build_rules.symbols_of_core(build_rules.undefined_symbols(os.path.join(BUILD, "src", "libhearth_core.a"))))

    def test_the_programs_have_no_hooks_for_tests(self):
        contents = {}
        for name in ("hearth", "hearth-train"):
            if name == "hearth" or build_rules.cache_value(BUILD, "HEARTH_TORCH") == "ON":
                with open(os.path.join(BUILD, "bin", name), "rb") as file:
                    contents[name] = file.read()
        self.none(build_rules.test_hooks_in_binaries(contents))
        self.assertTrue(build_rules.test_hooks_in_binaries({"hearth": b"\0_ZN6hearth9failpoint3armEli\0"}))
        self.assertTrue(build_rules.test_hooks_in_binaries({"hearth-train": b"\0hearth::ops::EmulatedGpu\0"}))

    def test_the_rules_see_libtorch_where_it_is(self):
        archive = os.path.join(BUILD, "src", "libhearth.a")
        if os.path.exists(archive):
            self.assertTrue(build_rules.symbols_of_core(build_rules.undefined_symbols(archive)))
        self.assertTrue(build_rules.libraries_of_hearth(["libc.so.6", "libtorch_cpu.so"]))
        self.assertTrue(build_rules.symbols_of_core("   U _ZN2at4_ops2mm4callERKNS_6TensorES4_\n"))
        self.assertFalse(build_rules.symbols_of_core("   U _ZN6hearth4data4loadEv\n"))

    def test_a_source_that_nothing_compiles_is_found(self):
        self.finds(build_rules.every_source_is_built, {"src/data/a.cpp": "", "src/ops/b.cpp": ""}, "src/ops/b.cpp", {"src/data/a.cpp"}, True)
        self.none(build_rules.every_source_is_built(Tree({"src/ops/b.cpp": ""}), set(), False))
        arrow = {"src/columnar/a.cpp": "", "src/columnar/b.cpp": ""}
        self.finds(build_rules.every_source_is_built, arrow, "src/columnar/b.cpp", {"src/columnar/a.cpp"}, False)
        self.none(build_rules.every_source_is_built(Tree(arrow), set(), True))


class FakeHelp:
    texts = {"hearth": "  data build  x\n", "hearth data build": "--out DIR", "scripts/a.sh": "--minutes N", "": "--set"}

    def known(self):
        return [["hearth", "data", "build"]]

    def __call__(self, words):
        return "" if words == ["hearth", "data"] else self.texts.get(" ".join(words))


class Documents(Case):
    def test_every_path_command_flag_and_key_in_the_documents_exists(self):
        tree = read_tree()
        self.none([problem for rule in doc_rules.RULES for problem in rule(tree)])
        with open(os.path.join(ROOT, "CMakePresets.json"), encoding="utf-8") as file:
            presets = [preset["name"] for preset in json.load(file)["configurePresets"]]
        self.none(doc_rules.named_commands(tree, doc_rules.Help(ROOT, BUILD), presets))

    def test_a_path_that_is_not_there_is_found(self):
        files = {"src/data/batch/loader.h": "", "docs/tour.md": ""}
        for text in ("`src/data/gone.h`", "`data/gone.cpp`", "`gone.md`", "[x](docs/gone.md)", "```\nbash scripts/gone.sh\n```",
                     "`src/{data,gone}/`", "`tests/<folder>/<name>_test.cpp`"):
            self.finds(doc_rules.named_paths, {"README.md": text, **files}, "does not exist")
        for text in ("`src/data/batch/loader.h:3`", "`data/batch/loader.h`", "[x](docs/tour.md)", "`src/<folder>/`", "`loader.h`", "`runs/x.md/`"):
            self.none(doc_rules.named_paths(Tree({"README.md": text, **files})))

    def test_a_command_or_flag_that_is_not_there_is_found(self):
        def finds(text, fault):
            self.finds(doc_rules.named_commands, {"README.md": text}, fault, FakeHelp(), ["release"])

        finds("`hearth brew`", "no command hearth brew")
        finds("```\nhearth data build --into X \\\n  --out Y\n```", "hearth data build has no --into")
        finds("`scripts/a.sh --hours 3`", "has no --hours")
        finds("`scripts/gone.sh`", "does not run")
        finds("`--nothing N`", "no command has --nothing")
        finds("`cmake --preset gone`", "no preset gone")
        good = "```\n$ build/release/bin/hearth data build --out X  # --into\nscripts/a.sh --minutes 3 && cmake --preset release\n```"
        self.none(doc_rules.named_commands(Tree({"README.md": good}), FakeHelp(), ["release"]))

    def test_missing_documents_folders_and_keys_are_found(self):
        self.finds(doc_rules.all_documents, {"README.md": ""}, "docs/tour.md:1: missing")
        self.finds(doc_rules.file_map, {"README.md": "", "src/data/a.h": ""}, "no line for src/data/")
        self.finds(doc_rules.file_map, {"README.md": "src/data  x\n", "src/data/a.h": "", "bench/x.md": ""}, "no line for bench/")
        self.finds(doc_rules.named_keys, {"README.md": "`training.stepz`", "docs/config.md": "| steps |"}, "no key training.stepz")
        self.none(doc_rules.named_keys(Tree({"README.md": "`--set training.steps=3`", "docs/config.md": "| steps |"})))


if __name__ == "__main__":
    part = sys.argv[1].capitalize() if len(sys.argv) > 1 else ""
    if part not in ("Sources", "Build", "Documents"):
        sys.exit("usage: tidy_test.py sources|build|documents [BUILD_FOLDER]")
    if len(sys.argv) > 2:
        BUILD = os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], part])
