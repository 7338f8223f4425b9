# SPDX-License-Identifier: Apache-2.0
"""Rules about the documents: every path, command, flag and configuration key that they name exists.

What is looked at: code spans, code blocks and relative links of Markdown. Names of things that a run makes
(run folders, build folders) are not paths of the repository and are passed over.
"""

import os
import re
import subprocess

from source_rules import CORE, OBJECTS, TORCH

DOCUMENTS = ["README.md", "STYLE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "bench/README.md", "docs/README.md",
             "docs/quickstart.md", "docs/data.md", "docs/configure.md", "docs/build.md", "docs/benchmarks.md",
             "docs/tour.md", "docs/decisions/README.md", "docs/data_format.md", "docs/checkpoint_format.md",
             "docs/numerics.md", "docs/plan.md", "docs/config.md"]
MAX_README_WORDS = 700
TOP_FOLDERS = {"src", "tests", "docs", "scripts", "cmake", "configs", "bench", "examples", ".ci", ".github"}
SOURCE_FOLDERS = set(CORE + TORCH) | set(OBJECTS)
OTHERS_FILES = ("train.sh", "train.py", "deepy.py", "pretrain_gpt.py")  # of other programs, or of the reader
SOURCE_ENDINGS = (".cpp", ".h", ".cu", ".md", ".sh", ".py", ".cmake", "CMakeLists.txt", "CMakePresets.json")
CONFIG_SECTIONS = "job|model|optimizer|lr_scheduler|training|parallelism|checkpoint|validation|metrics|comm|data|memory"


def code_lines(text):
    """(line number, code) of each code span and each line of a code block; a line ending in a backslash joins the next."""
    found = []
    in_block, joined, joined_at = False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif in_block:
            joined_at = joined_at or number
            joined += line.strip()
            if joined.endswith("\\"):
                joined = joined[:-1] + " "
                continue
            found.append((joined_at, joined))
            joined, joined_at = "", 0
        else:
            found += [(number, span) for span in re.findall(r"`([^`]+)`", line)]
    return found


def exists(tree, token, document):
    """Is there a file or folder of that name? Placeholders in <> and * stand for anything, {a,b} for each."""
    brace = re.search(r"\{([^{}]*)\}", token)
    if brace:
        parts = brace.group(1).split(",")
        return all(exists(tree, token[: brace.start()] + part + token[brace.end():], document) for part in parts)
    pattern = re.escape(token.rstrip("/")).replace(r"\*", "[^/]*")
    pattern = re.sub(r"<[^>]*>", "[^/]*", pattern)
    starts = ["", "src/", os.path.dirname(document) + "/"]
    tried = re.compile("|".join(f"(?:{re.escape(start.lstrip('/'))}{pattern})(?:/.*)?$" for start in starts))
    if any(tried.match(path) for path in tree.files):
        return True
    # Without a folder: any file of that name, or ending for "_slow_test.cpp".
    return "/" not in token and any(re.search(("" if token[0] == "_" else "(^|/)") + pattern + "$", path) for path in tree.files)


def named_paths(tree):
    problems = []
    for document, text in tree.select((".md",)):
        tokens = [(number, token.strip("\"'(),;:")) for number, code in code_lines(text) for token in code.split()]
        for number, line in enumerate(text.splitlines(), 1):
            tokens += [(number, link) for link in re.findall(r"\]\(([^)#:]+)\)", line)]
        for number, token in tokens:
            token = re.sub(r":\d+$", "", token.rstrip("."))
            if not re.fullmatch(r"[A-Za-z0-9_.<>*{},/-]+", token):
                continue
            if token in OTHERS_FILES:
                continue
            first = token.split("/")[0]
            in_repository = "/" in token and (first in TOP_FOLDERS or first in SOURCE_FOLDERS and token.endswith(SOURCE_ENDINGS))
            if in_repository or ("/" not in token and token.endswith(SOURCE_ENDINGS) and token not in SOURCE_ENDINGS):
                if not exists(tree, token, document):
                    problems.append(f"{document}:{number}: {token} does not exist")
    return problems


def all_documents(tree):
    return [f"{name}:1: missing" for name in DOCUMENTS if name not in tree.files]


def file_map(tree):
    """docs/tour.md has a line for each folder of src/, at both levels; it or README has one for each top folder."""
    tour = tree.files.get("docs/tour.md", "")
    either = tour + "\n" + tree.files.get("README.md", "")
    sources = [path.split("/")[:-1] for path in tree.files if path.startswith("src/")]
    folders = {"/".join(parts[:depth]): tour for parts in sources for depth in (2, 3) if len(parts) >= depth}
    folders |= {path.split("/")[0]: either for path in tree.files if "/" in path and not path.startswith((".", "src/"))}
    return [f"docs/tour.md:1: no line for {folder}/" for folder, text in sorted(folders.items())
            if not re.search(rf"^[ |`-]*{re.escape(folder)}/?(?![\w/])", text, re.MULTILINE)]


def index_of_pages(tree):
    """docs/README.md has a link to each page of docs/."""
    index = tree.files.get("docs/README.md", "")
    pages = [path.removeprefix("docs/") for path, _ in tree.select((".md",), "docs/")]
    return [f"docs/README.md:1: no link to {page}" for page in pages
            if "/" not in page and page != "README.md" and f"]({page})" not in index]


MAX_DECISIONS = 30


def decision_pages(tree):
    """Few decisions are worth a page: all else is a comment at its place."""
    pages = [path for path in tree.files if path.startswith("docs/decisions/") and not path.endswith("/README.md")]
    if len(pages) <= MAX_DECISIONS:
        return []
    return [f"docs/decisions/README.md:1: {len(pages)} pages, at most {MAX_DECISIONS}"]


def readme_length(tree):
    """Whoever meets the project reads README whole; the rest stands in docs/."""
    words = len(tree.files.get("README.md", "").split())
    return [f"README.md:1: {words} words, at most {MAX_README_WORDS}"] if words > MAX_README_WORDS else []


def commands_in(text):
    """(line, words before the first flag, flags) for each use of our programs in a document."""
    for number, code in code_lines(text):
        for part in re.split(r"&&|\|\||[|;]", re.sub(r"\s#\s.*", "", code)):
            tokens = part.replace("$ ", "").split()
            while tokens and re.fullmatch(r"[A-Z_]+=\S*|time|env|sudo|nice", tokens[0]):
                tokens.pop(0)
            if not tokens:
                continue
            program = tokens[0]
            name = program.split("/")[-1]
            ours = name in ("hearth", "hearth-train") or re.fullmatch(r"(\./)?scripts/\w+\.sh", program) or program == "cmake"
            flags = [token.split("=")[0].rstrip(".,)") for token in tokens[1:] if token.startswith("--")]
            if ours:
                yield number, [name if "scripts/" not in program else program.removeprefix("./")] + tokens[1:], flags
            elif program.startswith("--"):
                yield number, [""], [program.split("=")[0]]


def named_commands(tree, help_of, presets):
    """`help_of(words)`: the help text of that program and command, or None where there is no such command."""
    problems = []
    everything = ""
    scripts = [[path] for path, _ in tree.select((".sh",), "scripts/")]
    for words in (["hearth"], *help_of.known(), *scripts):
        everything += help_of(words) or ""
    for document, text in tree.select((".md",)):
        for number, words, flags in commands_in(text):
            if words[0] == "cmake":
                problems += [f"{document}:{number}: no preset {word}" for flag, word in zip(words, words[1:] + [""])
                             if flag == "--preset" and re.fullmatch(r"[a-z]+", word) and word not in presets]
                continue
            command = words[:1]
            for word in words[1:3] if words[0] == "hearth" else []:
                if not re.fullmatch(r"[a-z]+", word) or help_of(command + [word]) is None:
                    break
                command.append(word)
            if words[0] == "hearth" and len(words) > 1 and len(command) == 1 and re.fullmatch(r"[a-z]+", words[1]):
                problems.append(f"{document}:{number}: no command {' '.join(words[:2])}")
                continue
            text_of_help = help_of(command) if words[0] else everything
            if text_of_help is None:
                problems.append(f"{document}:{number}: {' '.join(command)} does not run")
                continue
            lacks = f"{' '.join(command)} has no" if words[0] else "no command has"
            problems += [f"{document}:{number}: {lacks} {flag}" for flag in flags if not re.search(re.escape(flag) + r"(?![\w-])", text_of_help)]
    return problems


def named_keys(tree):
    """Configuration keys, against docs/config.md, which another test holds to the table of fields."""
    table = tree.files.get("docs/config.md", "")
    problems = []
    for document, text in tree.select((".md",)):
        for number, code in code_lines(text):
            others = "jsonl|json|toml|safetensors"  # endings of files
            for key in re.findall(rf"(?<![\w./-])(?:{CONFIG_SECTIONS})\.(?!{others})[a-z_0-9]+(?![\w/(])", code):
                section, name = key.split(".")
                if not re.search(rf"\b{name}\b", table) and not key.endswith(tuple(SOURCE_ENDINGS)):
                    problems.append(f"{document}:{number}: no key {key}")
    return problems


class Help:
    """Asks the built programs and the scripts for their help, once each."""

    def __init__(self, root, build):
        self.root, self.build, self.texts = root, build, {}

    def run(self, words):
        if words[0].startswith("scripts/"):
            path = os.path.join(self.root, words[0])
            line = ["bash", path, "--help"] if os.path.exists(path) else None
        else:
            path = os.path.join(self.build, "bin", words[0])
            line = [path, *words[1:], "--help"] if os.path.exists(path) else None
        if not line:
            return None
        done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=600)
        return done.stdout if done.returncode == 0 else None

    def known(self):
        """The commands that `hearth --help` lists: indented lines that start with one or two words, then two spaces."""
        return [["hearth", *match.split()] for match in
                re.findall(r"^ +((?:[a-z]+ )?[a-z]+)(?:  | +[A-Z<\[.])", self(["hearth"]) or "", re.MULTILINE)]

    def __call__(self, words):
        key = " ".join(words)
        if key not in self.texts:
            listed = len(words) == 1 or any(known[: len(words)] == words for known in self.known())
            self.texts[key] = self.run(words) if listed else None
        return self.texts[key]


# What OLMo 2 brought.
OLMO2 = re.compile("norm_?placement|qk_?norm_?scope|norm_?part|SumOverRanks|olmo2", re.IGNORECASE)


def walk_of_a_model(tree):
    """docs/add_a_model.md lists the sources that OLMo 2 touched: its words stand in them. Later families use its
    options, too, and their folders do not count."""
    page = tree.files.get("docs/add_a_model.md", "")
    walk = page[page.find("## What OLMo 2 touched"):]
    listed = set(re.findall(r"`(src/[^`]+)`", walk))
    later = re.compile("src/models/(?!llama|olmo2)[a-z0-9_]+/")
    found = {path for path, text in tree.files.items()
             if path.startswith("src/") and not later.match(path) and OLMO2.search(path + "\n" + text)}
    return ([f"docs/add_a_model.md:1: {path} is not in the list" for path in sorted(found - listed)] +
            [f"docs/add_a_model.md:1: {path} has nothing of OLMo 2" for path in sorted(listed - found)])


RULES = [walk_of_a_model, named_paths, all_documents, file_map,
         index_of_pages, decision_pages, readme_length, named_keys]
