# SPDX-License-Identifier: Apache-2.0
"""Rules about the sources: who may include whom, sizes, spelling. A rule takes a Tree and returns what is wrong with it.

A problem is one line, "path:line: what". An empty list is a pass.
"""

import re

# The rooms of src/, in include order: a room includes itself and what stands to its left. Rooms that no file needs yet
# have their places: storage (local disk, S3), convert (name maps), launch (ranks, Slurm).
CORE = ["base", "machine", "hub", "storage", "mesh", "trace", "config", "models", "plan", "formats", "recordings",
        "tokenizer", "data", "checkpoint", "runfolder", "convert", "metrics", "report", "launch", "cluster", "commands"]
TORCH = ["base", "machine", "hub", "storage", "mesh", "trace", "config", "models", "plan", "comm", "kernels", "ops",
         "model", "decode", "parallel", "optim", "run", "train", "infer", "bench"]
# The first folder is the namespace: a second level would make each use longer, and no two folders of a room need the
# same name. ops::gpu is the one exception: it repeats names of ops. The folders of a room, in include order. All of
# them share the headers in the room itself, which stand to their left. The sources in the room itself put the parts
# together, and stand to their right.
FOLDERS = {
    "config": ["import"],
    "models": ["moe", "mla", "llama"],
    "plan": ["optimizer", "layouts"],
    "comm": ["notes"],
    "tokenizer": ["unicode", "pretokenizer", "normalizer", "bpe", "unigram", "wordpiece", "formats"],
    "data": ["formats", "source", "shard", "build", "order", "batch", "export", "study"],
    "convert": ["hugging_face", "meta", "neox", "nxd", "torch"],
    "ops": ["cpu", "gpu", "moe"],
    "commands": ["recordings", "tokenizer", "data", "config", "run", "bench", "checkpoint", "hub", "cluster"],
}
MAX_MODULES = 20  # in one folder; a module is a header with its sources
# Shared objects that are loaded on first use. They share headers with the libraries and no code; nobody includes theirs.
OBJECTS = {"columnar": ["data", "columnar"], "s3": ["base", "s3"], "graph": ["ops", "graph"], "mpi": ["comm", "mpi"]}
# Compiled by nvcc, hipcc and the host: knows nothing of Hearth, not even what stands to its left.
ALONE = ["kernels"]
TRAIN_ALSO = ["formats", "recordings", "tokenizer", "data", "checkpoint", "runfolder", "convert", "metrics", "report"]
# hearth-train reads the command line that hearth checked.
SIDES = {"main.cpp": CORE, "train_main.cpp": TORCH + TRAIN_ALSO + ["launch", "commands"]}

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
# Files and functions over the limit, each with its reason. A ratchet: a number here may only shrink.
LONG_FILES = {}  # path: (lines, reason)
LONG_FUNCTIONS = {}  # (path, start of its first line): (lines, reason)

# How many lines a file has over MAX_COLUMNS: a ratchet, too. A key is the end of a path, so that the file may move.
MAX_COLUMNS = 120
WIDE_LINES = {
    "FindLibTorch.cmake": 3, "build.py": 4, "build_rules.py": 3, "doc_rules.py": 5,
    "gpu.py": 15, "gpu.sh": 6, "gpu_test.py": 17, "quickstart.sh": 4,
    "reference_tokenizers.py": 4, "scripts_test.py": 8,
    "setup.sh": 13, "source_rules.py": 7, "src/CMakeLists.txt": 5, "step.py": 2, "steps.sh": 3, "test.sh": 3,
    "tests/CMakeLists.txt": 11, "tidy_test.py": 21, "unicode_tables.py": 5,
}

CODE = (".cpp", ".h", ".cu", ".py", ".sh", ".cmake", "CMakeLists.txt", ".ci/run")
LICENSE_LINE = "SPDX-License-Identifier: Apache-2.0"
BANNED_NAMES = {"util", "utils", "helper", "helpers", "manager", "common", "misc", "handler"}
# Spelled in two halves, so that this file passes its own rules.
PROMISES = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
MACHINE_PATHS = re.compile(r"/(work|root|tmp/wt)/")


class Tree:
    """The repository's text files: path from the root -> content. Tests make small wrong ones."""

    def __init__(self, files):
        self.files = files

    def select(self, suffixes, *prefixes):
        for path, text in sorted(self.files.items()):
            if path.endswith(tuple(suffixes)) and (not prefixes or path.startswith(prefixes)):
                yield path, text

    def lines(self, suffixes, *prefixes):
        for path, text in self.select(suffixes, *prefixes):
            for number, line in enumerate(text.splitlines(), 1):
                yield path, number, line


def may_include(folder):
    """The folders that `folder` of src/ (or its main file) may include; None where nothing is said."""
    if folder in SIDES:
        return set(SIDES[folder])
    if folder in OBJECTS:
        return set(OBJECTS[folder])
    if folder in ALONE:
        return {folder}
    allowed = set()
    for row in (CORE, TORCH):
        if folder in row:
            allowed |= set(row[: row.index(folder) + 1])
    if folder in ("run", "train", "infer", "bench"):
        allowed |= set(TRAIN_ALSO)
    return allowed or None


def place_in_room(path):
    """Where `path` ("data/shard/reader.h") stands in its room, counted from the left; None: the folder is not known."""
    parts = path.split("/")
    folders = FOLDERS.get(parts[0], [])
    if len(parts) == 2:
        return -1 if path.endswith(".h") else len(folders)
    return folders.index(parts[1]) if parts[1] in folders else None


def include_order(tree):
    problems = []
    for path, number, line in tree.lines((".cpp", ".h", ".cu"), "src/"):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            continue
        included = match.group(1)
        room = path.split("/")[1]
        allowed = may_include(room)
        if allowed is None:
            problems.append(f"{path}:{number}: folder {room} is not in the include table")
        elif included.split("/")[0] not in allowed:
            problems.append(f"{path}:{number}: {room} may not include {included}")
        elif f"src/{included}" not in tree.files:
            problems.append(f'{path}:{number}: "{included}" is not a path from src/')
        elif included.split("/")[0] == room:
            here, there = place_in_room(path.removeprefix("src/")), place_in_room(included)
            if here is None or there is None:
                problems.append(f"{path}:{number}: a folder of {room} is not in the include table")
            elif there > here:
                problems.append(f"{path}:{number}: {'/'.join(path.split('/')[1:-1])} may not include {included}")
    return sorted(set(problems))


def room_sizes(tree):
    """A folder that is too full hides what is in it. dcp_reader.cpp without a header belongs to dcp.h's module."""
    names, headers = {}, {}
    for path, _ in tree.select((".cpp", ".h", ".cu"), "src/"):
        folder, name = path.rsplit("/", 1)
        stem = re.sub(r"(-inl)?\.\w+$", "", name)
        names.setdefault(folder, set()).add(stem)
        if name.endswith(".h"):
            headers.setdefault(folder, set()).add(stem)
    problems = []
    for folder, stems in sorted(names.items()):
        own = headers.get(folder, set())
        parts = {stem for stem in stems - own if any(stem.startswith(header + "_") for header in own)}
        if len(stems - parts) > MAX_MODULES:
            problems.append(f"{folder}:1: {len(stems - parts)} modules, at most {MAX_MODULES}")
    return problems


def heavy_headers(tree):
    """Headers that cost seconds a file, or that tie a folder to LibTorch, stand only where they must."""
    problems = []
    for path, number, line in tree.lines((".cpp", ".h", ".cu")):
        match = re.match(r'\s*#\s*include\s+[<"]([^>"]+)[>"]', line)
        if not match:
            continue
        header = match.group(1)
        folder = path.split("/")[1] if "/" in path else ""
        core = path.startswith("src/") and (folder in CORE or folder == "main.cpp")
        if header in ("torch/torch.h", "torch/all.h", "ATen/ATen.h"):
            problems.append(f"{path}:{number}: {header} takes seconds to compile: include ATen/core/Tensor.h and single ops")
        if header.startswith("ATen/ops/") and not path.startswith(("src/ops/", "tests/")):
            problems.append(f"{path}:{number}: {header}: only src/ops/ includes ATen's ops")
        if core and header.startswith(("ATen/", "c10/", "torch/")):
            problems.append(f"{path}:{number}: {header}: hearth_core knows no LibTorch")
        if header.startswith(("arrow/", "parquet/")) and not path.startswith("src/columnar/"):
            problems.append(f"{path}:{number}: {header}: only src/columnar/ knows Arrow")
        if path.endswith(".h") and header.startswith(("nlohmann/json.hpp", "CLI/", "toml++/")):
            problems.append(f"{path}:{number}: {header} belongs in a .cpp")
    parsers = sorted({path for path, _, line in tree.lines((".cpp",), "src/") if re.match(r"\s*#\s*include\s+<toml\+\+/", line)})
    if len(parsers) > 1:
        problems.append(f"{parsers[1]}:1: toml++ is compiled in {parsers[0]} already")
    return problems


def file_length(tree):
    problems = []
    for path, text in tree.select(CODE):
        lines = len(text.splitlines())
        limit = LONG_FILES[path][0] if path in LONG_FILES else MAX_FILE_LINES
        if lines > limit:
            problems.append(f"{path}:{lines}: {lines} lines, at most {limit}")
        if path in LONG_FILES and lines <= MAX_FILE_LINES:
            problems.append(f"{path}:1: short enough now: take it out of LONG_FILES")
    return problems


def license_line(tree):
    """Names the licence in the first line, or the second after a "#!", as tools for licences read it (spdx.dev)."""
    problems = []
    for path, text in tree.select(CODE):
        first = [line for line in text.split("\n", 2)[:2] if not line.startswith("#!")]
        if first[0] not in (f"// {LICENSE_LINE}", f"# {LICENSE_LINE}"):
            problems.append(f"{path}:1: begin with {LICENSE_LINE}, as a comment")
    return problems


def wide_lines(text):
    """The numbers of the lines over the limit. In a raw string of C++ a line break would be text: those lines may be wide."""
    raw = set()
    for match in re.finditer(r'R"(\w*)\(.*?\)\1"', text, re.DOTALL):
        first = text.count("\n", 0, match.start()) + 1
        raw |= set(range(first, first + match.group().count("\n") + 1))
    lines = enumerate(text.splitlines(), 1)
    return [number for number, line in lines if len(line) > MAX_COLUMNS and number not in raw]


def line_width(tree):
    problems = []
    for path, text in tree.select(CODE):
        wide = wide_lines(text)
        limit = next((count for end, count in WIDE_LINES.items() if ("/" + path).endswith("/" + end)), 0)
        if len(wide) > limit:
            problems += [f"{path}:{number}: over {MAX_COLUMNS} columns" for number in wide]
        if limit and not wide:
            problems.append(f"{path}:1: no wide lines any more: take it out of WIDE_LINES")
    return problems


def function_length(tree):
    """Functions at the margin, as clang-format leaves them: from a line that ends in "{" to a lone "}"."""
    problems = []
    for path, text in tree.select((".cpp",), "src/"):
        start, head = None, ""
        for number, line in enumerate(text.splitlines(), 1):
            if start is None and re.match(r"[A-Za-z\[].*\{$", line):
                if not re.match(r"(namespace|extern|struct|class|enum|union)\b", line):
                    start, head = number, line
            elif start is not None and line.startswith("}"):
                lines = number - start + 1
                limit = next((n for (p, h), (n, _) in LONG_FUNCTIONS.items() if p == path and head.startswith(h)), MAX_FUNCTION_LINES)
                if line == "}" and lines > limit:
                    problems.append(f"{path}:{start}: a function of {lines} lines, at most {limit}")
                start = None
    return problems


def plain_text(tree):
    """ASCII, no tabs, no trailing blanks, one newline at the end."""
    problems = []
    for path, text in sorted(tree.files.items()):
        if path == "LICENSE":
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if not line.isascii():
                problems.append(f"{path}:{number}: not ASCII")
            if "\t" in line:
                problems.append(f"{path}:{number}: a tab")
            if line != line.rstrip():
                problems.append(f"{path}:{number}: blanks at the end of the line")
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            problems.append(f"{path}:{len(text.splitlines())}: must end in exactly one newline")
    return problems


def promises_and_machines(tree):
    """No promises left in the code, and no paths of one machine."""
    problems = []
    for path, number, line in tree.lines(("",)):
        if PROMISES.search(line) and not path.endswith(".md"):
            problems.append(f"{path}:{number}: a promise: do it now, or say in docs/decisions/ why not")
        if MACHINE_PATHS.search(line) and path != "tests/tidy/source_rules.py":
            problems.append(f"{path}:{number}: a path of one machine")
    return problems


def names(tree):
    problems = []
    for path in sorted(tree.files):
        for part in re.split(r"[/._]", path):
            if part in BANNED_NAMES:
                problems.append(f'{path}:1: "{part}" says nothing: name what it does')
        # Highway reads its -inl.h files once per target.
        if path.endswith(".h") and not path.endswith("-inl.h") and "\n#pragma once\n" not in "\n" + tree.files[path]:
            problems.append(f"{path}:1: no #pragma once")
    return problems


def build_flags(tree):
    """One binary for every x86-64-v2 machine, and arithmetic that means what it says."""
    problems = []
    for path, number, line in tree.lines(("CMakeLists.txt", ".cmake", "CMakePresets.json")):
        for flag in ("-march=native", "-mtune=native", "-ffast-math", "-Ofast"):
            if flag in line:
                problems.append(f"{path}:{number}: {flag}")
    return problems


def readers_that_leave(tree):
    """Under pipefail, a reader that leaves early kills its writer by SIGPIPE, sometimes: exit 141 where all went well."""
    leaves = re.compile(r"(?<!\|)\|\s*(head\b|grep\s+(-\w*[qm]|--quiet|--max-count)|sed\s+(-n\s+)?'?[0-9]*q\b)")
    problems = []
    for path, text in tree.select((".sh", ".ci/run")):
        for match in leaves.finditer(text):
            problems.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(1)} leaves before its writer ends")
    return problems


def silent_skips(tree):
    """unittest names what it skipped, and why, only with verbosity=2. scripts/test.sh collects that."""
    skips = re.compile(r"\bskip(Test|Unless|If)\(|\bSkipTest\b")
    main = re.compile(r"unittest\.main\((?!.*verbosity=2)|TextTestRunner\((?!.*verbosity=2)")
    return [f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a skipped case is not named without verbosity=2"
            for path, text in tree.select((".py",)) if path.startswith("tests/") and skips.search(text)
            for match in main.finditer(text)]


# They belong to the tests: calls of libc that fail (tests/support/failpoint.h), the GPU on the host
# (tests/kernels/emulator.h).
TEST_HOOKS = re.compile(r"failpoint|emulat", re.IGNORECASE)


def test_hooks(tree):
    """No hook for tests stands in the sources of the product."""
    return [f"{path}:{number}: {match.group()} belongs to the tests" for path, number, line in tree.lines(("",), "src/")
            if (match := TEST_HOOKS.search(line))]


def prints_that_throw(tree):
    """fmt::print throws where stderr takes nothing (a closed terminal, a full disk), and ends a run that should go on."""
    return [f"{path}:{number}: fmt::print(stderr) can throw: log_info of base/log.h, or std::fputs"
            for path, number, line in tree.lines((".cpp", ".h"), "src/") if "fmt::print(stderr" in line]


# The parts of a transformer's block belong to src/models: what a model has is a question to its program
# (models/program.h), its parameters (plan/parameters.h), or its family's files (config/families.h).
BLOCK_WORDS = re.compile(r"\b(w[qkvo]|wqkv|w13|w[123]|[qk]_norm|qk_norm\w*|qkv_bias|norm_placement)\b")
# Where they are said today. A path here may go, and none may come: keys of run files, their checks, and texts. How
# other programs cut and join a block's matrices is in src/models/llama/names.toml and ranks.toml.
BLOCK_WORDS_IN = {"src/config/block_options.h", "src/config/check.cpp", "src/config/field_table.cpp",
                  "src/config/import/", "src/convert/torch/target.cpp", "src/bench/ops.cpp",
                  "src/commands/checkpoint/convert.cpp", "src/commands/config/docs.cpp"}


def block_words(tree):
    """Only src/models knows the parts of a block."""
    problems, used = [], set()
    for path, number, line in tree.lines((".cpp", ".h", ".cu"), "src/"):
        match = BLOCK_WORDS.search(re.sub(r"//.*|w3\.org", "", line))
        if not match or path.startswith("src/models/"):
            continue
        known = {place for place in BLOCK_WORDS_IN if path.startswith(place)}
        used |= known
        if not known:
            problems.append(f"{path}:{number}: {match.group()} is a part of a block: only src/models knows it")
    unused = BLOCK_WORDS_IN - used if "src/models/llama/block.cpp" in tree.files else set()
    return problems + [f"{path}:1: take it out of BLOCK_WORDS_IN" for path in sorted(unused)]


# The files of a run: src/runfolder/names.h.
RUN_FILES = re.compile(r'/ "(run.lock|lease|config.toml|(done|plan).json|(metrics|scores|starts).jsonl|flight|logs)"')


def run_files(tree):
    """Only src/runfolder names the files of a run."""
    return [f"{path}:{number}: {match.group()[2:]} has a name in runfolder/names.h"
            for path, number, line in tree.lines((".cpp", ".h"), "src/")
            if (match := RUN_FILES.search(line)) and not path.startswith("src/runfolder/")]


RULES = [block_words, run_files, include_order, room_sizes, heavy_headers, license_line, file_length, function_length,
         line_width, plain_text, promises_and_machines, names, build_flags, readers_that_leave, silent_skips,
         test_hooks, prints_that_throw]
