# SPDX-License-Identifier: Apache-2.0
"""Runs one item of scripts/gpu.py's plan: a test program, case by case, or a benchmark. The item gets its result."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DETAIL_LINES = 12  # of what failed, on the page; all of them stand in the log
KILL_S = 5  # kept back at the end, for the last page


class Clock:
    """The time that everything may take together."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left_s(self):
        return self.end - time.monotonic()

    def last_call(self):
        """When the last program is stopped."""
        return self.end - KILL_S


class Stopped(Exception):
    """A signal asked us to stop. It is raised at once, or after hold() where release() is called."""

    is_held, waiting = False, None

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.number = number

    @staticmethod
    def raise_it(number, _):
        if Stopped.is_held:
            Stopped.waiting = number
        else:
            raise Stopped(number)

    @staticmethod
    def hold():
        Stopped.is_held = True

    @staticmethod
    def release():
        Stopped.is_held = False
        if Stopped.waiting is not None:
            raise Stopped(Stopped.waiting)


@contextlib.contextmanager
def running(command, environment, log, stderr):
    """The program of the command, which ends when this is left. A signal cannot come between its start and that."""
    Stopped.hold()
    program = None
    try:
        program = Program(command, environment, log, stderr)
        Stopped.release()
        yield program
    finally:
        Stopped.is_held = False
        if program is not None:
            program.end()


class Program:
    """A process with a group of its own, whose output is read line by line up to a time.

    Both streams go to the log in whole lines: a program that writes there by itself could write into one of ours.
    """

    def __init__(self, command, environment, log, stderr):
        self.log, self.lock, self.lines = log, threading.Lock(), queue.Queue()
        self.write("$ " + " ".join(command))
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=stderr, text=True, errors="replace",
                                        start_new_session=True)
        threading.Thread(target=self.read, daemon=True).start()
        self.errors = threading.Thread(target=self.read_errors, daemon=True)
        self.errors.start()

    def write(self, line):
        with self.lock:
            print(line, file=self.log, flush=True)

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def read_errors(self):
        for line in self.process.stderr or ():
            self.write(line.rstrip("\n"))

    def line(self, until):
        """The next line; None at the end. Raises queue.Empty when there is none until then."""
        line = self.lines.get(timeout=max(0.0, until - time.monotonic()))
        if line is not None:
            self.write(line)
        return line

    def ended(self):
        """How it ended, in words; empty: well."""
        code = self.process.wait()
        self.errors.join(timeout=KILL_S)  # a process that it left behind may keep the stream open
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}" if code else ""

    def end(self):
        """Ends the group."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.errors.join(timeout=KILL_S)


# --- tests ------------------------------------------------------------------------------------------------------------


def cases_of(command, environment):
    """Names of the cases that the filter leaves, and how the program answered where the filter leaves no case."""
    try:
        done = subprocess.run([*command, "--gtest_list_tests"], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], str(error)
    suite, names = "", []
    for line in done.stdout.splitlines():
        if re.match(r"\S+\.$", line):
            suite = line.strip()
        elif line.startswith("  ") and suite:
            names.append(suite + line.split("#")[0].strip())
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    return names, last


def quoted(lines, last=DETAIL_LINES):
    """The last of them, as Markdown shows output."""
    return [f"      {line}".rstrip() for line in lines[-last:]]


class Cases:
    """What came of each case: "passed", "failed", "skipped", or "" for not run; and the lines that it printed."""

    def __init__(self, names):
        self.results = dict.fromkeys(names, "")
        self.details = {name: [] for name in names}

    def left(self):
        return [name for name, result in self.results.items() if not result]

    def end(self, name, result, *details):
        self.details[name] += details
        # There is a GPU: a case that sees none (tests/support/gpu.h) did not do its work.
        blind = result == "skipped" and any(line.startswith("needs a GPU: ") for line in self.details[name])
        self.results[name] = "failed" if blind else result

    def text(self):
        counts = [list(self.results.values()).count(result) for result in ("passed", "failed", "skipped", "")]
        named = [f"{count} {word}" for count, word in zip(counts, ("passed", "failed", "skipped", "not run")) if count]
        return ", ".join(named)

    def section(self):
        lines = []
        for word in ("failed", "skipped", ""):
            for name, result in self.results.items():
                if result == word and word == "skipped":
                    reason = next((line for line in self.details[name] if "Skipped" not in line), "")
                    lines.append(f"- skipped: `{name}` {reason}".rstrip())
                elif result == word:
                    lines.append(f"- {word or 'not run'}: `{name}`")
                    if word:
                        lines += ["", *quoted(self.details[name]), ""]
        return lines


def run_cases(command, cases, until, timeout_s, environment, log, report):
    """One process for all that is left. It ends early where a case hangs or takes the process down with it."""
    names = cases.left()
    line_of_end = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:,| \(|$)")
    words = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
    current, limit = "", min(until, time.monotonic() + timeout_s)
    with running([*command, "--gtest_filter=" + ":".join(names)], environment, log, subprocess.STDOUT) as program:
        while True:
            try:
                line = program.line(limit)
            except queue.Empty:
                if limit < until:
                    cases.end(current or names[0], "failed", f"took longer than {timeout_s:g} s")
                return
            if line is None:
                break
            if line.startswith("[ RUN      ] "):
                current = line[len("[ RUN      ] "):]
                limit = min(until, time.monotonic() + timeout_s)
                continue
            end = line_of_end.match(line)
            if end and current and end[2] == current:
                cases.end(current, words[end[1]])
                current = ""
                report()
            elif current:
                cases.details[current].append(line)
        how = program.ended()
        if current:
            cases.end(current, "failed", f"the program ended in it: {how or 'exit code 0'}")
        elif len(cases.left()) == len(names):
            cases.end(names[0], "failed", f"the program ran no case: {how or 'exit code 0'}")


def run_tests(item, clock, timeout_s, environment, log, write_page):
    """Every case of the program, each with a time of its own; writes the page after each."""
    command = item.commands[0]
    program = [word for word in command if not word.startswith("--gtest_filter=")]
    names, last = cases_of(command, environment)
    if not names:
        item.result, item.failed, item.section = f"failed: it lists no case ({last})", True, []
        return
    cases = Cases(names)

    def report():
        item.result, item.section = cases.text(), cases.section()
        item.failed = "failed" in cases.results.values()
        write_page()

    while cases.left() and time.monotonic() < clock.last_call():
        run_cases(program, cases, clock.last_call(), timeout_s, environment, log, report)
    report()


# --- benchmarks -------------------------------------------------------------------------------------------------------


def memory_section(outputs):
    """`hearth plan --json` and `hearth bench step --json` of one run: planned and measured memory."""
    planned = json.loads(outputs[0])["memory"]["total_bytes"]
    measured = json.loads(outputs[1].splitlines()[-1])
    memory_bytes = measured["memory_bytes"]
    return ["| planned | measured | measured / planned | seconds a step |", "|---|---|---|---|",
            f"| {planned / 2**30:.2f} GiB | {memory_bytes / 2**30:.2f} GiB | {memory_bytes / planned:.3f} | "
            f"{measured['median_step_s']:.2f} |"]


def run_benchmark(item, clock, environment, log):
    """Runs the item's commands. Its section is what they print, their tables alone, or planned and measured memory."""
    outputs = []
    for command in item.commands:
        lines, log_start = [], os.path.getsize(log.name)
        with running(command, environment, log, subprocess.PIPE) as program:
            try:
                while (line := program.line(clock.last_call())) is not None:
                    lines.append(line)
            except queue.Empty:
                item.result = "stopped: the minutes were over"
                return
            how = program.ended()
        if how:
            with open(log.name, encoding="utf-8", errors="replace") as everything:
                everything.seek(log_start)
                item.section = quoted(everything.read().splitlines()[1:])  # without the command
            item.result, item.failed = f"failed: {how}", True
            return
        outputs.append("\n".join(lines))
    item.result = "done"
    lines = outputs[0].splitlines()
    if len(outputs) == 2:
        item.section = memory_section(outputs)
    elif item.name.startswith("kernels_"):
        item.section = quoted(lines, len(lines))
    else:
        item.section = [line for line in lines if line.startswith(("|", "GEMM: "))]
