#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
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
import noun_rules  # noqa: E402
import source_rules  # noqa: E402
import word_rules  # noqa: E402
from source_rules import Tree  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build", "release")
TOP = ("src", "tests", "docs", "scripts", "cmake", "configs", "bench", "examples", ".ci", ".github")
TEXT = (".cpp", ".h", ".cu", ".py", ".sh", ".cmake", ".txt", ".md", ".toml", ".json", "run", "LICENSE", ".clang-format",
        ".clang-tidy", ".yaml", ".yml", ".editorconfig", ".gitignore")
PICTURES = (".png", ".svg")


def read_tree():
    files = {}

    def read(path):
        if path.endswith(TEXT):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                files[path] = file.read()
        elif path.endswith(PICTURES):
            files[path] = ""  # made by a program: only its name matters

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
        rules = source_rules.RULES + noun_rules.RULES + word_rules.RULES
        self.none([problem for rule in rules for problem in rule(tree)])

    def test_an_include_to_the_right_in_the_table_is_found(self):
        files = dict.fromkeys(("src/ops/tensor.h", "src/data/batch/loader.h", "src/columnar/a.h", "src/base/a.h"), "")
        tensor, loader, table, base = (f'#include "{path[4:]}"\n' for path in files)
        for path, text, fault in (
            ("src/base/a.cpp", tensor, "base may not include"),
            ("src/model/a.cpp", loader, "model may not include"),
            ("src/main.cpp", tensor, "main.cpp may not include"),
            ("src/new/a.cpp", tensor, "not in the include table"),
            ("src/data/a.cpp", '#include "data/gone.h"\n', "not a path"),
            ("src/data/a.cpp", table, "data may not include"),
            ("src/columnar/a.cpp", base, "columnar may not"),
            ("src/kernels/a.cu", base, "kernels may not"),
        ):
            self.finds(source_rules.include_order, {**files, path: text}, fault)
        self.none(source_rules.include_order(Tree({**files, "src/train/a.cpp": loader + tensor})))

    def test_an_include_to_the_right_inside_a_room_is_found(self):
        loader, reader = '#include "data/batch/loader.h"\n', '#include "data/shard/reader.h"\n'
        norm, gemm = '#include "ops/norm.h"\n', '#include "ops/cpu/gemm.h"\n'
        headers = ("src/data/batch/loader.h", "src/data/shard/reader.h", "src/ops/norm.h", "src/ops/cpu/gemm.h")
        tree = dict.fromkeys(headers, "")
        rule = source_rules.include_order
        self.finds(rule, {**tree, "src/data/shard/a.cpp": loader}, "data/shard may not include data/batch/loader.h")
        self.finds(rule, {**tree, "src/data/new/a.cpp": loader}, "not in the include table")
        self.finds(rule, {**tree, "src/ops/rope.h": gemm}, "ops may not include ops/cpu/gemm.h")
        self.none(rule(Tree({**tree, "src/data/batch/a.cpp": reader})))
        self.none(rule(Tree({**tree, "src/ops/cpu/a.cpp": norm, "src/ops/norm.cpp": gemm})))

    def test_a_folder_of_too_many_modules_is_found(self):
        files = {f"src/data/shard/m{i}.cpp": "" for i in range(source_rules.MAX_MODULES + 1)}
        self.finds(source_rules.room_sizes, files, "src/data/shard:1: 21 modules")
        del files["src/data/shard/m0.cpp"]
        self.none(source_rules.room_sizes(Tree({**files, "src/data/shard/m1.h": ""})))
        part = {"src/data/shard/m1.h": "", "src/data/shard/m1_reader.cpp": ""}
        self.none(source_rules.room_sizes(Tree({**files, **part})))

    def test_parts_of_a_block_outside_its_room_are_found(self):
        rule = source_rules.block_words
        self.finds(rule, {"src/plan/a.cpp": 'find("attention.wq.weight");\n'}, "wq is a part of a block")
        self.finds(rule, {"src/models/llama/block.cpp": "", "src/base/a.h": ""}, "take it out of BLOCK_WORDS_IN")
        files = {"src/plan/a.cpp": "// wq\n", "src/models/llama/a.cpp": "wq w13\n", "src/config/import/a.cpp": "wq\n"}
        self.none(rule(Tree(files)))

    def test_names_of_a_runs_files_outside_their_room_are_found(self):
        rule = source_rules.run_files
        self.finds(rule, {"src/report/a.cpp": 'read(run / "plan.json");\n'}, '"plan.json" has a name')
        self.none(rule(Tree({"src/runfolder/a.h": 'path_ / "lease";\n', "src/report/a.cpp": 'say("logs");\n'})))

    def test_a_type_of_two_headers_is_found(self):
        rule, header = noun_rules.one_meaning, "namespace hearth::a {{\n{}\n}}  // namespace hearth::a\n".format
        first, fault = {"src/a/a.h": header("struct Part {};")}, "Part is a type of src/a/a.h"
        for text in ("struct Part {", "class Part final : public Whole {", "enum class Part : int8_t { kOne"):
            self.finds(rule, {**first, "src/b/b.h": header(text + "};")}, f"src/b/b.h:2: {fault}")
        for words in ("struct [[nodiscard]] Part", "struct[[nodiscard]] alignas(8) Part",
                      "enum class [[nodiscard]] Part : int", "struct alignas(W * sizeof(T) < 16 ? 1 : f(g(16))) Part",
                      "struct __attribute__((packed)) Part : Whole", "class HEARTH_PUBLIC Part final",
                      'class [[deprecated("a {")]] HEARTH_API(1) Part'):
            self.finds(rule, {**first, "src/b/b.h": header(words + " {};")}, f"src/b/b.h:2: {fault}")
        self.finds(rule, {**first, "src/b/b.h": header("using Part [[maybe_unused]] = int;")}, fault)
        for before in ("template <class T>", "int f() { return 1; }", "// {", "constexpr char kBrace = '{';",
                       "#define OPEN {", "inline int k = 1'000;", 'auto text = R"({)";'):
            self.finds(rule, {**first, "src/b/b.h": header(before + "\nstruct Part {};")}, f"src/b/b.h:3: {fault}")
        self.finds(rule, {**first, "src/b/b.h": header("using Part = int;")}, fault)
        for text in ("struct Part;", "class Whole {\n  struct Part {};\n};", "// struct Part {};",
                     "struct Whole::Part {};", "struct [[nodiscard]] Whole::Part {};",
                     "struct alignas(8) Part;", "struct HEARTH_API Whole {\n  struct alignas(8) Part {};\n};",
                     "struct HEARTH_PACKED(Part) Whole {};", "using models::Part;", 'auto text = "struct Part {";'):
            self.none(rule(Tree({**first, "src/b/b.h": header(text)})))
        self.none(rule(Tree({**first, "src/b/b.cpp": header("struct Part {};")})))

    def test_a_row_of_nouns_that_the_headers_contradict_is_found(self):
        rule, row = noun_rules.page_of_nouns, "| unit, micro-batch | a meaning | `plan/a.h`, `plan/b.h` |"
        page = "# Style\n\n## Nouns\n\n| noun | meaning | header |\n|---|---|---|\n{}\n\n## Errors\n| a | b |\n".format
        units, batches = {"src/plan/a.h": "struct Unit {};\n"}, {"src/plan/b.h": "int num_micro_batches();\n"}
        good = {"STYLE.md": page(row), **units, **batches}
        for files, fault in (
            ({"src/plan/b.h": "// unit\nint unity, micro, batch;\n"}, "STYLE.md:7: src/plan/b.h declares no"),
            ({"src/plan/b.h": "struct UnitSlot;\n"}, "STYLE.md:7: none of the headers declares a micro-batch"),
            ({"STYLE.md": page(row.replace("b.h", "c.h"))}, "STYLE.md:7: src/plan/c.h does not exist"),
            ({"STYLE.md": page(row.replace("`plan/b.h`", "plan/b.h"))}, "STYLE.md:7: not a row"),
            ({"src/config/c.h": "\nusing Unit = int;\n"}, "src/config/c.h:2: Unit is a noun of STYLE.md"),
            ({"src/config/c.h": "struct MicroBatch {};\n"}, "src/config/c.h:1: MicroBatch is a noun"),
        ):
            self.finds(rule, {**good, **files}, fault)
        others = "struct Unit;\nusing plan::Unit;\nstruct TimeUnit {};\nclass A {\n  struct Unit {};\n};\n"
        self.none(rule(Tree({**good, "src/config/c.h": others, "src/config/c.cpp": "struct Unit {};\n"})))

    def test_heavy_headers_in_the_wrong_place_are_found(self):
        rule = source_rules.heavy_headers
        self.finds(rule, {"tests/ops/a_test.cpp": "#include <torch/torch.h>\n"}, "torch/torch.h")
        self.finds(rule, {"src/ops/a.cpp": "#include <ATen/ATen.h>\n"}, "ATen/ATen.h")
        self.finds(rule, {"src/model/a.cpp": "#include <ATen/ops/mm.h>\n"}, "only src/ops/")
        self.finds(rule, {"src/data/a.h": "#include <ATen/core/Tensor.h>\n"}, "knows no LibTorch")
        self.finds(rule, {"src/data/a.cpp": "#include <arrow/api.h>\n"}, "only src/columnar/ knows Arrow")
        self.finds(rule, {"src/config/a.h": "#include <nlohmann/json.hpp>\n"}, "belongs in a .cpp")
        self.finds(rule, {"src/config/a.cpp": "#include <toml++/toml.h>\n", "src/config/b.cpp": "#include <toml++/toml.h>\n"}, "already")
        self.none(rule(Tree({"src/ops/a.cpp": "#include <ATen/ops/mm.h>\n", "src/data/b.cpp": "#include <nlohmann/json.hpp>\n"})))

    def test_a_source_that_does_not_name_its_licence_is_found(self):
        rule, line = source_rules.license_line, source_rules.LICENSE_LINE
        self.none(rule(Tree({"src/a.h": f"// {line}\n", "a.py": f"#!/x\n# {line}\n", "a.cmake": f"# {line}\n"})))
        for path, text in (("src/a.cpp", ""), ("src/a.h", f"int x;\n// {line}\n"), ("a.sh", f"#!/x\n\n# {line}\n")):
            self.finds(rule, {path: text}, f"{path}:1: begin with")

    def test_long_files_and_functions_are_found(self):
        self.finds(source_rules.file_length, {"src/a.cpp": "x\n" * 401}, "401 lines")
        body = "void f() {\n" + "  x();\n" * 69 + "}\n"
        self.finds(source_rules.function_length, {"src/a.cpp": body}, "function of 71 lines")
        self.none(source_rules.function_length(Tree({"src/a.cpp": body.replace("  x();\n", "", 1) * 2})))
        self.none(source_rules.function_length(Tree({"src/a.cpp": body.replace("void f() {", "struct S {")})))

    def test_wide_lines_are_found_but_for_raw_strings_and_no_more_than_are_on_the_list(self):
        rule, wide = source_rules.line_width, "x" * 120 + "\n"
        self.none(rule(Tree({"src/a.cpp": wide, "docs/a.md": "y" + wide})))
        for path in ("src/a.cpp", "src/a.cu", "tests/a.h", "tests/a.py", "scripts/a.sh", "cmake/a.cmake", ".ci/run"):
            self.finds(rule, {path: f"y\n{wide}y{wide}"}, f"{path}:3: over 120 columns")
        raw = f'auto a = R"x(\ny{wide})" {wide})x";\n'
        self.none(rule(Tree({"src/a.cpp": raw})))
        self.finds(rule, {"src/a.cpp": raw + "y" + wide}, "src/a.cpp:5: over")
        name, count = next(iter(source_rules.WIDE_LINES.items()))
        self.none(rule(Tree({f"moved/{name}": ("y" + wide) * count})))
        self.finds(rule, {f"moved/{name}": ("y" + wide) * (count + 1)}, "over 120 columns")
        self.finds(rule, {f"moved/{name}": wide}, "take it out of WIDE_LINES")
        self.finds(rule, {f"moved/x{name}": "y" + wide}, "over 120 columns")

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

    def test_a_print_that_throws_is_found(self):
        self.finds(source_rules.prints_that_throw, {"src/a/a.cpp": 'x();\nfmt::print(stderr, "a");\n'}, "a.cpp:2: fmt")
        self.none(source_rules.prints_that_throw(Tree({"src/a/a.cpp": 'fmt::print("{}", 1);\n'})))

    def test_a_skipped_case_that_nobody_would_name_is_found(self):
        rule = source_rules.silent_skips
        skip = 'self.skip' + 'Test("no GPU")\n'
        self.finds(rule, {"tests/a/a_test.py": skip + "unittest.main()\n"}, "a_test.py:2: a skipped case")
        self.none(rule(Tree({"tests/a/a_test.py": skip + "unittest.main(verbosity=2)\n",
                             "tests/b.py": "unittest.main()\n", "scripts/a.py": skip + "unittest.main()\n"})))

    def test_a_reader_that_leaves_its_writer_is_found(self):
        rule = source_rules.readers_that_leave
        self.finds(rule, {"scripts/a.sh": "sort x |\n  head -n 5\n"}, "a.sh:1: head leaves")
        self.finds(rule, {"scripts/a.sh": "x\nldconfig -p | grep -q y\n"}, "a.sh:2: grep -q")
        self.finds(rule, {"scripts/a.sh": "sort x | sed 1q\n"}, "sed 1q")
        self.none(rule(Tree({"scripts/a.sh": "sort x | sed -n 1,5p\ngrep -q x file || head -n 1 file\ny | grep x >/dev/null\n"})))


class Words(Case):
    """Run with Sources. The habits are spelled in two halves, so that this file may keep the rule."""

    HABIT = "they run by tu" + "rns"

    def finds_habit(self, path, text, line):
        self.finds(word_rules.plain_words, {path: text}, f"{path}:{line}: ", ("src/", "docs/"))

    def test_a_habit_is_found_in_comments_strings_and_documents(self):
        for path, text, line in (
            ("src/a.cpp", f"int x;\n// So {self.HABIT}.\n", 2),
            ("src/a.h", f'auto s = "{self.HABIT}";\n', 1),
            ("src/a.cu", "int x;  // they run by\n        // tu" + "rns\n", 1),
            ("src/a.py", f'"""One.\n\n{self.HABIT}\n"""\n', 1),
            ("src/a.py", f"x = 1\ny = 2  # {self.HABIT}\n", 2),
            ("src/a.sh", f"say '{self.HABIT}'\n", 1),
            ("src/a.sh", f"x\n# {self.HABIT}\n", 2),
            ("docs/a.md", "x\n\n- they run by\n  tu" + "rns\n", 3),
            ("docs/a.md", f"| a | {self.HABIT} |\n", 1),
        ):
            self.finds_habit(path, text, line)

    def test_code_and_other_paths_are_passed_over(self):
        for path, text in (
            ("src/a.cpp", "int by_tu" + "rns = none.is;\n"),
            ("src/a.sh", "run by tu" + "rns\n"),
            ("src/a.sh", "echo ${#text[@]} by tu" + "rns\n"),
            ("docs/a.md", f"```\n{self.HABIT}\n```\n`{self.HABIT}`\n"),
            ("tests/a.cpp", f"// {self.HABIT}\n"),
        ):
            self.none(word_rules.plain_words(Tree({path: text}), ("src/", "docs/")))

    def test_each_habit_is_found_and_plain_words_are_not(self):
        for words in ("a loss that is no" + "ne yet", "Whose rank is no" + "ne.", "by tu" + "rns", "dialects tell them" + "selves",
                      "Kinds are to" + "ld by content", "5 GiB be" + "side 2", "be" + "side ATen's", "O" + "f four ranks one runs.",
                      "True. O" + "f four ranks one runs.", "What" + " stems from a key"):
            self.finds_habit("docs/a.md", words.replace("What", "what") + "\n", 1)
        plain = "There is none of them here. Of course it runs. Half of it stands beside the file. The kind is told to the reader."
        self.none(word_rules.plain_words(Tree({"docs/a.md": plain + "\n"}), ("docs/",)))

    def test_long_sentences_are_found_in_prose_only(self):
        sentence = "word " * 40 + "end.\n"
        for text in (sentence, "- " + sentence, "Short.\n" + sentence.replace("word word", "word\nword", 1)):
            self.finds(word_rules.plain_words, {"docs/a.md": text}, "a sentence of 41 words", ("docs/",))
        for text in (sentence.replace("word ", "", 1), sentence.replace("word word", "word. Word", 1), f"| {sentence.strip()} |\n",
                     f"```\n{sentence}```\n", f"x\n\n    {sentence}", "word\n\n".join([sentence[:100]] * 2)):
            self.none(word_rules.plain_words(Tree({"docs/a.md": text}), ("docs/",)))


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

    def test_too_many_decisions_are_found(self):
        pages = {f"docs/decisions/{i}.md": "" for i in range(doc_rules.MAX_DECISIONS)}
        self.none(doc_rules.decision_pages(Tree({**pages, "docs/decisions/README.md": ""})))
        self.finds(doc_rules.decision_pages, {**pages, "docs/decisions/more.md": ""}, "31 pages, at most 30")

    def test_the_list_of_sources_that_a_model_touched_is_checked(self):
        rule = doc_rules.walk_of_a_model
        page = {"docs/add_a_model.md": "`src/c.h`\n## What OLMo 2 touched\n`src/a.h`\n"}
        self.none(rule(Tree({**page, "src/a.h": "norm_placement\n", "src/c.h": ""})))
        self.finds(rule, {**page, "src/a.h": ""}, "src/a.h has nothing of OLMo 2")
        self.finds(rule, {**page, "src/a.h": "NormPart", "src/olmo2.toml": ""}, "olmo2.toml is not in the list")

    def test_a_path_that_is_not_there_is_found(self):
        files = {"src/data/batch/loader.h": "", "docs/tour.md": ""}
        for text in ("`src/data/gone.h`", "`data/gone.cpp`", "`gone.md`", "[x](docs/gone.md)", "![x](docs/gone.svg)", "```\nbash scripts/gone.sh\n```",
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
        rooms = {"src/data/a.h": "", "src/data/order/a.h": "", "docs/tour.md": "src/data/order  x\nsrc/data  x\ndocs/  x\n"}
        self.none(doc_rules.file_map(Tree(rooms)))
        self.finds(doc_rules.file_map, {**rooms, "docs/tour.md": "src/data/order  x\ndocs/  x\n"}, "no line for src/data/")
        self.finds(doc_rules.file_map, {**rooms, "docs/tour.md": "src/data  x\ndocs/  x\n"}, "no line for src/data/order/")
        self.finds(doc_rules.file_map, {**rooms, "docs/tour.md": "", "README.md": "src/data  x\n"}, "no line for src/data/")
        self.finds(doc_rules.file_map, {**rooms, "bench/x.md": ""}, "no line for bench/")
        self.none(doc_rules.file_map(Tree({**rooms, "bench/x.md": "", "README.md": "bench/  x\n"})))
        self.finds(doc_rules.index_of_pages, {"docs/README.md": "`a.md`", "docs/a.md": ""}, "no link to a.md")
        self.none(doc_rules.index_of_pages(Tree({"docs/README.md": "[a](a.md)", "docs/a.md": "", "docs/b/c.md": ""})))
        self.finds(doc_rules.readme_length, {"README.md": "x " * 701}, "701 words")
        self.none(doc_rules.readme_length(Tree({"README.md": "x " * 700})))
        self.finds(doc_rules.named_keys, {"README.md": "`training.stepz`", "docs/config.md": "| steps |"}, "no key training.stepz")
        self.none(doc_rules.named_keys(Tree({"README.md": "`--set training.steps=3`", "docs/config.md": "| steps |"})))


if __name__ == "__main__":
    part = sys.argv[1].capitalize() if len(sys.argv) > 1 else ""
    if part not in ("Sources", "Build", "Documents"):
        sys.exit("usage: tidy_test.py sources|build|documents [BUILD_FOLDER]")
    if len(sys.argv) > 2:
        BUILD = os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], part] + (["Words"] if part == "Sources" else []))
