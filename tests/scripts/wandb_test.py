#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/wandb_sync.py: what it sends, and how it goes on.

Registered in CTest as scripts.wandb. A module in place of wandb records the calls. Where the package itself is
installed (for this Python, or for the one that HEARTH_WANDB_PYTHON names), its own offline files are read as well.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "wandb_sync.py")
FAKE = """
import json
class Run:
    def __init__(self, call): self.call = call
    def write(self, *what):
        with open("calls.jsonl", "a") as file: file.write(json.dumps(what) + "\\n")
    def define_metric(self, *a, **k): self.write("define", a, k)
    def log(self, values): self.write("log", values)
    def finish(self): self.write("finish")
def init(**call):
    run = Run(call)
    run.write("init", call)
    return run
"""
# Prints the records of wandb's offline files, which are logs of LevelDB's format behind a head of seven bytes.
READER = """
import glob, json, struct, sys
from wandb.proto import wandb_internal_pb2
for path in sorted(glob.glob(sys.argv[1] + "/wandb/offline-run-*/run-*.wandb")):
    data = open(path, "rb").read()
    place, whole = 7, b""
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack("<HB", data[place + 4:place + 7])
        whole += data[place + 7:place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record.FromString(whole)
            whole = b""
            if record.WhichOneof("record_type") == "run":
                print(json.dumps({"id": record.run.run_id, "project": record.run.project}))
            if record.WhichOneof("record_type") == "history":
                print(json.dumps({(i.key or ".".join(i.nested_key)): json.loads(i.value_json)
                                  for i in record.history.item}))
"""


def record(step, **more):
    return json.dumps({"step": step, "loss": 10.5 / step, "tokens": 64 * step, "skipped": "spike", **more}) + "\n"


class WandbSync(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.run_folder = os.path.join(self.folder.name, "books")
        os.mkdir(self.run_folder)

    def path(self, name):
        return os.path.join(self.run_folder, name)

    def append(self, text):
        with open(self.path("metrics.jsonl"), "a") as file:
            file.write(text)

    def sync(self, *words, python=sys.executable, module=FAKE):
        with open(os.path.join(self.folder.name, "wandb.py"), "w") as file:
            file.write(module)
        path = {"PYTHONPATH": self.folder.name} if module else {}
        if not module:
            os.remove(os.path.join(self.folder.name, "wandb.py"))
        return subprocess.run([python, "-B", SCRIPT, self.run_folder, *words], cwd=self.folder.name, text=True,
                              capture_output=True, env={**os.environ, **path, "WANDB_SILENT": "true"})

    def calls(self, name):
        with open(os.path.join(self.folder.name, "calls.jsonl")) as file:
            return [call[1:] for call in map(json.loads, file) if call[0] == name]

    def test_each_step_is_sent_once_and_a_torn_line_later(self):
        whole = record(3)
        self.append(record(1) + '{"event": "resume", "step": 1}\n' + record(2) + "garbage\n" + whole[:20])
        with open(self.path("config.toml"), "w") as file:
            file.write("[training]\nsteps = 9\n")
        done = self.sync("--project", "mine")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^sent 2 steps of .*/books to mine/[0-9a-f]{12}, 1 damaged lines left out\n$")
        self.append(whole[20:] + record(4))
        self.assertRegex(self.sync("--offline").stdout, "^sent 2 steps")
        self.assertRegex(self.sync().stdout, "^sent 0 steps")
        logged = [values for values, in self.calls("log")]
        self.assertEqual([values["step"] for values in logged], [1, 2, 3, 4])
        self.assertEqual(logged[1], {"step": 2, "loss": 5.25, "tokens": 128})
        first, second, third = [call for call, in self.calls("init")]
        self.assertEqual(len({first["id"], second["id"], third["id"]}), 1)
        self.assertEqual((first["name"], first["resume"], first["mode"]), ("books", "allow", "online"))
        self.assertEqual(second["mode"], "offline")
        self.assertEqual(first["config"], {"training": {"steps": 9}})

    def test_what_cannot_be_sent_is_one_clear_error(self):
        missing = self.sync()
        self.assertEqual(missing.returncode, 2)
        self.assertIn("has no metrics.jsonl\n  fix: ", missing.stderr)
        self.append(record(1))
        with open(self.path("wandb.json"), "w") as file:
            file.write("{")
        self.assertIn("wandb.json is damaged\n  fix: ", self.sync().stderr)
        with open(self.path("wandb.json"), "w") as file:
            json.dump({"id": "a", "offset": 1000}, file)
        self.assertIn("metrics.jsonl is shorter than what was sent", self.sync().stderr)
        absent = self.sync(module="raise ImportError")
        self.assertEqual(absent.returncode, 2)
        self.assertIn("the package wandb is not installed\n  fix: ", absent.stderr)

    def test_a_damaged_configuration_or_a_broken_line_to_the_server_loses_no_step(self):
        self.append(record(1) + record(2))
        with open(self.path("config.toml"), "wb") as file:
            file.write(b"[training\n\xff")
        fails = FAKE.replace('self.write("log", values)', 'values["step"] == 2 and 1 / 0; self.write("log", values)')
        broken = self.sync(module=fails)
        self.assertEqual(broken.returncode, 1)
        self.assertIn("ZeroDivisionError", broken.stderr)
        again = self.sync()
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("config.toml is damaged, and is not sent", again.stderr)
        self.assertEqual([values["step"] for values, in self.calls("log")], [1, 2])

    def test_the_package_itself_takes_the_metrics_offline(self):
        python = os.environ.get("HEARTH_WANDB_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import wandb.proto.wandb_internal_pb2"], capture_output=True).returncode != 0:
            self.skipTest("the package wandb is not installed: pip install wandb")
        for steps in ((1, 2), (3,)):
            self.append("".join(record(step) for step in steps))
            done = self.sync("--offline", python=python, module="")
            self.assertEqual(done.returncode, 0, done.stderr)
        found = subprocess.run([python, "-c", READER, self.run_folder], text=True, capture_output=True, check=True)
        records = [json.loads(line) for line in found.stdout.splitlines()]
        with open(self.path("wandb.json")) as file:
            name = json.load(file)["id"]
        self.assertEqual([r for r in records if "id" in r], 2 * [{"id": name, "project": "hearth"}])
        steps = [(r["step"], r["loss"], r["tokens"]) for r in records if "loss" in r]
        self.assertEqual(steps, [(1, 10.5, 64), (2, 5.25, 128), (3, 3.5, 192)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
