# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu.sh runs: the list of tests and benchmarks for a GPU, its time, and the page of results.

    python3 scripts/gpu.py tests                        the test programs with cases for a GPU, one a line
    python3 scripts/gpu.py pack --build DIR --to DIR    copies what a GPU machine needs out of a build
    python3 scripts/gpu.py run --build DIR|--from DIR   runs everything, or prints the plan

Python's standard library alone: PyTorch is asked in a process of its own.
"""

import argparse
import datetime
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from gpu_items import ROOT, Clock, Stopped, run_benchmark, run_tests

MANIFEST = "pack.json"
LOADED_LATER = ("bin/libhearth_cuda.so", "bin/libhearth_cuda_graph.so")  # by programs, which do not name them

# Seconds for each table of bench/step.py, by shape, as an H100 took them; half of the peers' is torch.compile. Those of
# llama3_3b are guesses. A table starts two programs, compiles and makes twelve steps of each.
TABLES = ("compiled", "torchtitan", "float8", "graph")  # the tables with a goal; the eager ones come after all shapes
STEP_S = {
    "llama_1b_16k": {"compiled": 60, "torchtitan": 60, "float8": 35, "graph": 35, "eager": 45},
    "llama3_8b_slice": {"compiled": 60, "torchtitan": 60, "float8": 30, "graph": 30, "eager": 45},
    "llama3_1b": {"compiled": 60, "torchtitan": 60, "float8": 30, "graph": 30, "eager": 45},
    "llama3_3b": {"compiled": 120, "torchtitan": 120, "float8": 80, "graph": 80, "eager": 90},
}
MEMORY_GIB = {"llama3_3b": 170}  # the GPU's memory that a shape needs, where 80 GiB cannot hold its two programs
TEST_S = {"test_kernels_fast": 15, "test_train_fast": 20}
TEST_TIMEOUT_S = 60
NO_TORCHTITAN = "torchtitan is not here; bench/torchtitan_step.py says how to install it, --torchtitan names its folder"
WINDOW = "configs/llama3_1b_131k.toml"


def fail(code, what, why="", fix=""):
    """The shape and the exit codes of src/base/error.h."""
    print(f"error: {what}", file=sys.stderr)
    for name, text in (("why", why), ("fix", fix)):
        if text:
            print(f"  {name}: {text}", file=sys.stderr)
    sys.exit(code)


def gpu_tests():
    """Names of the test programs whose sources have cases for a real GPU."""
    found = set()
    for path in glob.glob(os.path.join(ROOT, "tests", "**", "*_test.cpp"), recursive=True):
        with open(path, encoding="utf-8") as file:
            if re.search(r"^HEARTH_ON_EACH_GPU\(", file.read(), re.MULTILINE):
                room = os.path.relpath(path, os.path.join(ROOT, "tests")).split(os.sep)[0]
                found.add(f"test_{room}_{'slow' if path.endswith('_slow_test.cpp') else 'fast'}")
    return sorted(found)


# --- pack -------------------------------------------------------------------------------------------------------------


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def output_of(*line):
    """Nothing where the program is missing or fails."""
    try:
        done = subprocess.run(line, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def mib(size):
    return f"{size / 2**20:.1f} MiB"


def libraries_of(build, program):
    """The build's own libraries that the program names: the other machine has them from nowhere else."""
    named = re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "--dynamic", os.path.join(build, program)))
    places = [f"{folder}/{name}" for name in named for folder in ("bin", "tests")]
    return [place for place in places if os.path.exists(os.path.join(build, place))]


def pack(options):
    wanted = ["bin/hearth", "bin/hearth-train", *LOADED_LATER, *(f"tests/{name}" for name in gpu_tests())]
    if os.path.exists(options.to) and not os.path.exists(os.path.join(options.to, MANIFEST)) and os.listdir(options.to):
        fail(2, f"--pack: {options.to} is not empty", "it holds something else than an earlier pack", "give another folder")
    shutil.rmtree(options.to, ignore_errors=True)
    files = {}
    for name in wanted:  # which grows
        if not os.path.exists(os.path.join(options.build, name)):
            fail(5, f"pack: the build has no {name}", f"looked in {options.build}", "remove the build folder and build again")
        wanted += [library for library in libraries_of(options.build, name) if library not in wanted]
        copy = os.path.join(options.to, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy(os.path.join(options.build, name), copy)
        subprocess.run(["strip", "--strip-unneeded", copy], check=True)
        files[name] = {"bytes": os.path.getsize(copy), "sha256": sha256(copy)}
    for name, facts in files.items():
        print(f"{mib(facts['bytes']):>10}  {name}")
    total = sum(facts["bytes"] for facts in files.values())
    if total > options.limit * 2**20:
        shutil.rmtree(options.to)
        fail(2, f"pack: {mib(total)} are more than the {options.limit:g} MiB of --limit", "the sizes stand above",
             "give --limit more, if the machine takes more")
    version = re.search(r"LibTorch ([0-9.]+)", output_of(os.path.join(options.build, "bin", "hearth-train"), "--version"))
    if not version:
        fail(5, "pack: hearth-train --version names no LibTorch", "", "see whether it runs here")
    changed = "-changed" if output_of("git", "status", "--porcelain") else ""
    manifest = {"commit": (output_of("git", "rev-parse", "--short", "HEAD") or "unknown") + changed,
                "libtorch": version[1], "files": files}
    with open(os.path.join(options.to, MANIFEST), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    print(f"== pack: {options.to}, {mib(total)}, commit {manifest['commit']}, LibTorch {manifest['libtorch']}")


def open_pack(folder):
    """The manifest; every file is as it was packed."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
    except (OSError, ValueError) as error:
        fail(2, f"--from: {folder} is no pack", str(error), "scripts/gpu.sh --pack DIR makes one, where there is nvcc")
    for name, facts in manifest["files"].items():
        path = os.path.join(folder, name)
        if not os.path.exists(path) or sha256(path) != facts["sha256"]:
            fail(3, f"--from: {path} is not the file that was packed", "it is missing, cut or changed", "copy the pack again")
        os.chmod(path, 0o755)  # not every way of copying keeps the mode
    return manifest


# --- the machine ------------------------------------------------------------------------------------------------------

PROBE = """
import json, os, sys, torch, transformers
print(json.dumps({"torch": torch.__version__, "folder": os.path.dirname(torch.__file__), "cuda": torch.version.cuda,
                  "transformers": transformers.__version__, "python": sys.version.split()[0], "gpu": torch.cuda.is_available()}))
"""


def ask_torch(python, manifest):
    done = subprocess.run([python, "-c", PROBE], cwd=ROOT, capture_output=True, text=True, check=False, timeout=180)
    if done.returncode != 0:
        fail(2, f"{python} has no PyTorch with Transformers", done.stderr.strip().splitlines()[-1],
             "install both for it, or run scripts/gpu.sh without --from")
    facts = json.loads(done.stdout.splitlines()[-1])
    if not facts["gpu"]:
        fail(4, "no GPU here", f"PyTorch {facts['torch']} of {python} sees none, though nvidia-smi does",
             "install a PyTorch for CUDA that this driver can run, and see CUDA_VISIBLE_DEVICES")
    built, here = manifest["libtorch"].split(".")[:2], facts["torch"].split(".")[:2]
    if manifest["libtorch"] and built != here:
        fail(2, f"--from: built for LibTorch {manifest['libtorch']}, and {python} has {facts['torch']}",
             "LibTorch's interface differs between minor versions", "pack again with HEARTH_LIBTORCH naming a torch of that version")
    return facts


def library_path(folder, torch_folder):
    """Where the packed programs find libhwy, the emulator, LibTorch and the CUDA libraries of its wheel."""
    wheels = sorted(glob.glob(os.path.join(torch_folder, "..", "nvidia", "*", "lib")))
    places = [os.path.join(folder, "bin"), os.path.join(folder, "tests"), os.path.join(torch_folder, "lib")]
    places += [os.path.normpath(place) for place in wheels]
    return ":".join(places + [place for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place])


# --- what is run ------------------------------------------------------------------------------------------------------


class Item:
    """A line of the plan, and what came of it."""

    def __init__(self, name, needs_s, *commands, needs_gib=0, lacks=""):
        self.name, self.needs_s, self.commands, self.needs_gib = name, needs_s, commands, needs_gib
        self.lacks = lacks  # what is not here, and how to get it
        self.result, self.took_s = "", None  # "" is: not reached
        self.failed = False
        self.section = []  # lines of Markdown

    def why_not(self, left_s, gpu_gib):
        """Why it does not start now; empty: it does."""
        if self.lacks:
            return f"left out: {self.lacks}"
        if gpu_gib < self.needs_gib:
            return f"left out: needs a GPU of {self.needs_gib} GiB"
        if left_s < self.needs_s:
            return f"left out, no time: takes about {self.needs_s:.0f} s, {max(left_s, 0):.0f} s were left"
        return ""


def items(folder, python, only, torchtitan):
    """The tests, each kernel alone, the tables of each shape in the order of bench/results/gpu.md, memory, and eager."""
    hearth = os.path.join(folder, "bin", "hearth")

    def table(shape, name):
        step = [python, os.path.join(ROOT, "bench", "step.py"), "--device", "cuda", "--shape", shape, "--table", name]
        more, lacks = ["--hearth", hearth], ""
        if name == "torchtitan":
            more += ["--torchtitan", torchtitan]
            lacks = "" if os.path.isdir(os.path.join(torchtitan, "torchtitan")) else NO_TORCHTITAN
        return Item(f"{shape}_{name}", STEP_S[shape][name], [*step, *more], needs_gib=MEMORY_GIB.get(shape, 0), lacks=lacks)

    every = [Item(name, TEST_S.get(name, 30), [os.path.join(folder, "tests", name), "--gtest_color=no", "--gtest_filter=*/AGpu"])
             for name in gpu_tests()]
    ops = [hearth, "bench", "ops", WINDOW, "--set", "data.path=", "--seq-len", "8192", "--device", "cuda"]
    every.append(Item("kernels_llama3_1b", 20, ops))
    every += [table(shape, name) for shape in STEP_S for name in TABLES]

    def memory(*settings):
        """Commands whose results are planned and measured memory."""
        run = [WINDOW, *(word for setting in ("training.global_batch_size=1", *settings) for word in ("--set", setting))]
        step = [hearth, "bench", "step", *run, "--set", "data.path=", "--device", "cuda"]
        return [hearth, "plan", *run, "--device", "H200", "--json"], [*step, "--steps", "1", "--warmup", "1", "--json"]

    every.append(Item("memory_131k", 60, *memory(), needs_gib=60))
    every.append(Item("memory_zero3", 40, *memory("training.seq_len=8192", "parallelism.zero_stage=3")))
    every.append(Item("nccl_one_rank", 30, [hearth, "bench", "comm", "--ranks", "1", "--device", "cuda", "--json"]))
    every += [table(shape, "eager") for shape in STEP_S]
    return [item for item in every if not only or any(word in item.name for word in only)]


def print_plan(plan, minutes):
    left_s = 60 * minutes
    print(f"== plan: {minutes:g} minutes, {len(plan)} items; the times are guesses")
    for number, item in enumerate(plan, 1):
        why_not = item.why_not(left_s, item.needs_gib)
        condition = f", on a GPU of {item.needs_gib} GiB or more" if item.needs_gib else ""
        print(f"{number:3}  {item.name}: {why_not or f'about {item.needs_s} s'}{condition}")
        for command in item.commands:
            print("       " + " ".join(command))
        left_s -= 0 if why_not else item.needs_s
    print(f"== {left_s:.0f} s of {60 * minutes:.0f} would be left")


class Page:
    """The Markdown page of results: written whole, and renamed into place, after each result."""

    def __init__(self, out, title, facts, plan):
        self.out, self.title, self.facts, self.plan = out, title, facts, plan
        day = datetime.date.today().strftime("%Y%m%d")
        device = re.sub(r"[^a-z0-9]+", "_", title.lower().replace("nvidia", "")).strip("_")
        stem = os.path.join(out, f"gpu_{day}_{device}")
        others = len(glob.glob(glob.escape(stem) + "*.md"))
        self.path = f"{stem}_{others + 1}.md" if others else f"{stem}.md"

    def write(self):
        lines = [f"# On a GPU: {self.title}, {datetime.date.today()}", "", *self.facts, "",
                 "| what | result | seconds |", "|---|---|---|"]
        for item in self.plan:
            took = f"{item.took_s:.0f}" if item.took_s is not None else ""
            lines.append(f"| {item.name} | {item.result or 'not reached'} | {took} |")
        for item in self.plan:
            if item.section:
                lines += ["", f"## {item.name}", "", *item.section]
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(self.path + ".new", self.path)


def facts_of(options, manifest, gpu, torch):
    driver, memory = gpu[1], gpu[2]
    only = f" --only {' '.join(options.only)}" if options.only else ""
    return [f"`scripts/gpu.sh --minutes {options.minutes:g}{only}`, commit {manifest['commit']}. Driver {driver}, {memory / 1024:.0f} GiB, "
            f"PyTorch {torch['torch']} (CUDA {torch['cuda']}), Transformers {torch['transformers']}, Python {torch['python']}.",
            "Tables: `bench/step.py --device cuda`, two programs in alternation. The goals stand in `bench/results/gpu.md`."]


def run_plan(plan, page, clock, gpu_gib, environment, log):
    for number, item in enumerate(plan, 1):
        item.result = item.why_not(clock.left_s(), gpu_gib)
        if item.result:
            print(f"== {number}/{len(plan)} {item.name}: {item.result}", flush=True)
            page.write()
            continue
        item.result = f"running since {time.strftime('%H:%M:%S')}"
        page.write()
        print(f"== {number}/{len(plan)} {item.name}: about {item.needs_s} s, {clock.left_s():.0f} s are left", flush=True)
        started = time.monotonic()
        try:
            if item.name.startswith("test_"):
                run_tests(item, clock, TEST_TIMEOUT_S, environment, log, page.write)
            else:
                run_benchmark(item, clock, environment, log)
        except Stopped as stop:
            item.result, item.failed = f"stopped by {stop}", True
            raise
        finally:
            item.took_s = time.monotonic() - started
            page.write()
        print(f"   {item.result}, {item.took_s:.0f} s", flush=True)


def run(options):
    folder = os.path.abspath(options.build or getattr(options, "from"))
    plan = items(folder, options.python, options.only, os.path.abspath(options.torchtitan))
    if not plan:
        fail(2, f"--only: nothing has {' or '.join(options.only)} in its name", "", "scripts/gpu.sh --dry-run shows the names")
    if options.dry_run:
        print_plan(plan, options.minutes)
        print(f"== then: {os.path.join(options.out, 'gpu_<date>_<device>.md')} and gpu.log there")
        return 0
    clock = Clock(60 * options.minutes)
    commit = output_of("git", "rev-parse", "--short", "HEAD") or "unknown"
    manifest = {"libtorch": "", "commit": commit} if options.build else open_pack(folder)
    name, driver, memory_mib = (part.strip() for part in options.gpu.split(","))
    torch = ask_torch(options.python, manifest)
    # A later visit with the same --out finds what this one compiled.
    cache = os.path.join(options.out, "compiled")
    environment = {"TORCHINDUCTOR_CACHE_DIR": cache, **os.environ, "PYTHONUNBUFFERED": "1"}  # Triton's lie in it
    if not options.build:
        environment["LD_LIBRARY_PATH"] = library_path(folder, torch["folder"])
    os.makedirs(options.out, exist_ok=True)
    page = Page(options.out, name, facts_of(options, manifest, (name, driver, float(memory_mib)), torch), plan)
    page.write()
    print(f"== results: {page.path}", flush=True)
    with open(os.path.join(options.out, "gpu.log"), "a", encoding="utf-8") as log:
        run_plan(plan, page, clock, float(memory_mib) / 1024, environment, log)
    left_out = [item.name for item in plan if item.result.startswith("left out, no time")]
    if left_out:
        print(f"== no time for: scripts/gpu.sh --only {' '.join(left_out)}")
    failed = [item.name for item in plan if item.failed]
    print(f"== {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}; results: {page.path}")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tests")
    packing = commands.add_parser("pack")
    packing.add_argument("--build", required=True)
    packing.add_argument("--to", required=True)
    packing.add_argument("--limit", type=float, default=72)
    running = commands.add_parser("run")
    running.add_argument("--build")
    running.add_argument("--from")
    running.add_argument("--python", default="python3")
    running.add_argument("--out", required=True)
    running.add_argument("--minutes", type=float, default=8)
    running.add_argument("--only", nargs="*", default=[])
    running.add_argument("--torchtitan", default=os.path.join(ROOT, ".deps", "torchtitan"))
    running.add_argument("--gpu", default="", help="name, driver, MiB")
    running.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if options.command == "tests":
        print("\n".join(gpu_tests()))
        return 0
    if options.command == "pack":
        pack(options)
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, Stopped.raise_it)
    try:
        return run(options)
    except Stopped as stop:
        return 128 + stop.number


if __name__ == "__main__":
    sys.exit(main())
