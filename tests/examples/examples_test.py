#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The worked examples, whole: each script on a Slurm cluster of two nodes on this machine, or without one, and a Hub.

Registered in CTest as examples.NAME, with the label slow. By hand:
    python3 tests/examples/examples_test.py llemma
What is asserted does not come from the scripts: a second training that nobody stopped, a model that nobody trained, the
files that PyTorch opens.
"""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HEARTH = os.path.join(ROOT, "build", "release", "bin", "hearth")
ORACLE = os.path.join(ROOT, ".deps", "oracle", "bin", "python")
SLURM_PORT = "17300"  # not that of tests/cluster, which may run at the same time
LOSSES = ("first sample", "samples", "learning rate", "loss", "gradient norm")


class Example(unittest.TestCase):
    """One run of a script; tests look at what it left."""

    name = ""
    needs_text = True

    @classmethod
    def setUpClass(cls):
        if cls.needs_text and not glob.glob("/usr/share/doc/python3*/html/_sources/library/index.rst.txt"):
            raise unittest.SkipTest("Python's documentation is not installed: scripts/setup.sh --text")
        cls.scratch = tempfile.TemporaryDirectory(prefix=f"hearth-example-{cls.name}-")
        cls.addClassCleanup(cls.scratch.cleanup)
        os.chmod(cls.scratch.name, 0o755)  # or munged refuses to be in it
        cls.out = os.path.join(cls.scratch.name, "out")
        cls.environment = dict(os.environ, LANG="C.UTF-8", OMP_WAIT_POLICY="passive")
        cls.environment.pop("SLURM_CONF", None)
        cls.start_slurm()
        cls.start_hub()
        script = os.path.join(ROOT, "examples", cls.name, "run.sh")
        cls.output = cls.run_line(["bash", script, "--out", cls.out, "--push", f"me/{cls.name}"])

    @classmethod
    def start_slurm(cls):
        """As root, where Slurm is installed. Elsewhere the script does without."""
        if os.geteuid() != 0 or not all(os.path.exists(f"/usr/sbin/{name}") for name in ("slurmd", "munged")):
            cls.has_slurm = False
            return
        script = os.path.join(ROOT, "tests", "support", "slurm_cluster.sh")
        folder = os.path.join(cls.scratch.name, "slurm")
        settings = dict(cls.environment, SLURM_CLUSTER_PORT=SLURM_PORT)
        cls.addClassCleanup(subprocess.run, ["bash", script, "down", folder], env=settings, check=True)
        up = subprocess.run(["bash", script, "up", folder, "2"], env=settings, check=True, text=True,
                            stdout=subprocess.PIPE)
        cls.environment["SLURM_CONF"] = up.stdout.strip().removeprefix("SLURM_CONF=")
        cls.has_slurm = True

    @classmethod
    def start_hub(cls):
        """tests/hub/hub_server.py in place of huggingface.co."""
        cls.store = os.path.join(cls.scratch.name, "store")
        os.mkdir(cls.store)
        server = subprocess.Popen([sys.executable, os.path.join(ROOT, "tests", "hub", "hub_server.py"), cls.store],
                                  stdin=subprocess.PIPE)
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.stdin.close)
        port = os.path.join(cls.store, "port")
        while not os.path.exists(port):
            if server.poll() is not None:
                raise RuntimeError("hub_server.py ended")
        with open(port, encoding="utf-8") as file:
            cls.environment.update(
                HF_ENDPOINT=f"http://127.0.0.1:{file.read()}", HF_HUB_DISABLE_XET="1", HF_TOKEN="hf_test",
                HF_HOME=os.path.join(cls.scratch.name, "home"), HEARTH_HUB=os.path.join(cls.scratch.name, "hub"),
                NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")

    @classmethod
    def run_line(cls, line, folder=None):
        done = subprocess.run(line, cwd=folder, env=cls.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(line)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    @classmethod
    def hearth(cls, *words):
        return cls.run_line([HEARTH, *words], cls.out)

    def path(self, *names):
        return os.path.join(self.out, *names)

    def metrics(self, run):
        with open(self.path(run, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def needs_oracle(self):
        if not os.path.exists(ORACLE):
            self.skipTest("there is no PyTorch: scripts/setup.sh --oracle")

    def foreign(self, *words):
        """What PyTorch says of a folder (foreign.py), without the lines of libraries."""
        script = os.path.join(HERE, "foreign.py")
        return self.run_line([ORACLE, script, *words], self.out).strip().splitlines()[-1]

    def compared(self, run, ranks_before, ranks_after):
        """Stopped, and gone on with on other ranks. Next to it: a training that nobody stopped."""
        with open(self.path(run, "starts.jsonl"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        whys = [event["why"] for event in events if event["event"] == "end"]
        self.assertEqual(whys, ["`hearth stop` asked for it", "the training is complete"])
        ranks = [event["ranks"] for event in events if event["event"] == "submit"]
        self.assertEqual(ranks, [ranks_before, ranks_after])
        self.hearth("train", "twin.toml", "--set", "job.dump_folder=undisturbed")
        found = json.loads(self.hearth("compare", run, "undisturbed", "--json"))
        return {entry["name"]: entry for entry in found["numbers"]}

    def expect_resumed_exactly(self, run, ranks_before, ranks_after):
        numbers = self.compared(run, ranks_before, ranks_after)
        steps = max(line["step"] for line in self.metrics("undisturbed"))
        for name in LOSSES:
            self.assertEqual((numbers[name]["steps"], numbers[name]["first_step"]), (steps, None), name)

    def expect_resumed_within_rounding(self, run, ranks_before, ranks_after):
        """Layouts that add up in other orders: the same samples, and losses that differ by what float32 rounds."""
        numbers = self.compared(run, ranks_before, ranks_after)
        for name in ("first sample", "samples", "learning rate"):
            self.assertIsNone(numbers[name]["first_step"], name)
        stop, = [line["step"] for line in self.metrics(run) if line.get("event") == "resume"]
        self.assertGreater(numbers["loss"]["first_step"], stop)
        self.assertLess(numbers["loss"]["largest_difference"], 1e-3)

    def untrained(self, *options):
        """A run whose one step has next to no learning rate."""
        if not os.path.exists(self.path("untrained")):
            self.hearth("train", "twin.toml", "--set", "job.dump_folder=untrained", "--set", "training.steps=1",
                        "--set", "optimizer.lr=1e-12", "--set", "lr_scheduler.warmup_steps=0", *options)
        return "untrained"

    def evaluated(self, run, *options):
        return json.loads(self.hearth("eval", "--checkpoint", run, "--json", *options))

    def expect_better_than_untrained(self, run, most, *options):
        """`most`: the largest part of the untrained model's loss that may be left."""
        trained = {entry["name"]: entry["loss"] for entry in self.evaluated(run)["sets"]}
        untrained = {entry["name"]: entry["loss"] for entry in self.evaluated(self.untrained(*options))["sets"]}
        self.assertEqual(trained.keys(), untrained.keys())
        for name, loss in trained.items():
            self.assertLess(loss, most * untrained[name], name)

    def expect_answers(self, run, least):
        task, = self.evaluated(run, "--task", "questions.jsonl")["tasks"]
        guess, = self.evaluated(self.untrained(), "--task", "questions.jsonl")["tasks"]
        self.assertEqual(task["chance"], 0.25)
        self.assertGreater(task["questions"], 200)
        self.assertGreater(task["acc"], least)
        self.assertLess(guess["acc"], 0.25 + 4 * guess["acc_stderr"])

    def expect_published(self, *names):
        folder = os.path.join(self.store, "repos", "models", "me", self.name)
        for name in ("README.md", *names):
            self.assertTrue(os.path.exists(os.path.join(folder, name)), name)
        with open(folder + ".created.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["visibility"], "private")
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
            self.assertIn("logits", file.read())  # what --verify proved

    def expect_report(self, run):
        """The page marks the step at which the training went on."""
        step, = [line["step"] for line in self.metrics(run) if line.get("event") == "resume"]
        self.assertLess(0, step)
        with open(self.path("report.html"), encoding="utf-8") as file:
            self.assertIn(f'"events":[{{"name":"resume","step":{step},', file.read())

    def expect_array_job(self, *datasets, parts=4):
        """With Slurm each part was a task of an array job; and no part had nothing to do."""
        for dataset in datasets:
            logs = [self.path("logs", f"build-{dataset}-{part}.log") for part in range(1, parts + 1)]
            for log in logs:
                with open(log, encoding="utf-8") as file:
                    self.assertRegex(file.read(), r"wrote [1-9]\d* shards? of")
        if self.has_slurm:
            self.assertIn(f"$ sbatch --wait --quiet --array=1-{parts}", self.output)
            self.assertIn("job ", self.output)
            self.assertNotIn("local-", self.output)


class Llemma(Example):
    name = "llemma"

    def test_the_data_are_built_by_array_jobs(self):
        self.expect_array_job("arxiv", "open-web-math", "algebraic-stack", "pile-sample", "redpajama-github")

    def test_the_plan_is_of_the_real_model_on_the_real_machine(self):
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        self.assertEqual(plan["model"]["parameters"], 6738546688)
        self.assertEqual(plan["step"]["tokens"], 1024 * 4096)
        self.assertTrue(plan["memory"]["fits"])
        self.assertEqual(plan["run"]["devices"], 256)

    def test_it_goes_on_with_four_ranks_to_the_bits_of_the_undisturbed_training(self):
        self.expect_resumed_exactly("llemma", 2, 4)

    def test_it_is_better_than_an_untrained_model(self):
        self.expect_better_than_untrained("llemma", 0.65)
        self.expect_answers("llemma", 0.5)
        self.expect_report("llemma")

    def test_pytorch_computes_the_same_loss_from_the_files_of_gpt_neox(self):
        self.needs_oracle()
        self.hearth("data", "export", "--to", "bin-idx", "--split", "validation", "--out", "tokens", "data/arxiv")
        ours, = [entry["loss"] for entry in self.evaluated("llemma")["sets"] if entry["name"] == "arxiv"]
        theirs = float(self.foreign("neox", "neox/global_step0", "tokens.bin", "256", "4"))
        self.assertAlmostEqual(theirs, ours, delta=2e-7)  # the difference is about 1e-8

    def test_it_is_published(self):
        self.expect_published("hearth.json")


class TrainiumMedical(Example):
    name = "trainium_medical"

    def test_the_data_are_built_by_an_array_job_and_packed_for_the_recipe_s_trainer(self):
        self.expect_array_job("general", parts=2)
        self.expect_array_job("medical")
        self.needs_oracle()
        rows = json.loads(self.foreign("rows", "packed"))
        self.assertEqual(rows["columns"], ["input_ids", "attention_mask", "labels"])
        self.assertEqual(rows["lengths"], [256])
        self.assertGreater(rows["rows"], 5000)

    def test_the_plan_is_of_the_real_model(self):
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        self.assertEqual(plan["model"]["parameters"], 6738415616)
        self.assertEqual(plan["step"]["tokens"], 2048 * 4096)
        self.assertTrue(plan["memory"]["fits"])
        self.assertEqual(plan["run"]["devices"], 64)

    def test_it_goes_on_with_one_rank_to_the_bits_of_the_undisturbed_training(self):
        self.expect_resumed_exactly("medical", 2, 1)

    def test_it_starts_from_the_other_model_and_is_better_than_an_untrained_one(self):
        self.expect_better_than_untrained("medical", 0.65, "--set", "checkpoint.initial_load_path=")
        begun = next(line["validation_loss"] for line in self.metrics("medical") if line["step"] == 0)
        random, = [entry["loss"] for entry in self.evaluated("untrained")["sets"]]
        self.assertLess(begun, random - 1)
        self.expect_answers("medical", 0.5)
        self.expect_report("medical")

    def test_pytorch_and_transformers_compute_the_same_loss_from_the_files_of_nxd_and_hugging_face(self):
        self.needs_oracle()
        self.hearth("data", "export", "--to", "bin-idx", "--split", "validation", "--out", "tokens", "data/medical")
        ours, = [entry["loss"] for entry in self.evaluated("medical")["sets"]]
        for kind, folder in (("nxd", "nxd/step_0"), ("hf", "hf")):
            theirs = float(self.foreign(kind, folder, "tokens.bin", "256", "4"))
            self.assertAlmostEqual(theirs, ours, delta=2e-3, msg=kind)  # Hearth multiplies in bfloat16, they in float32

    def test_it_is_published(self):
        self.expect_published("config.json", "model.safetensors", "tokenizer.json")


class FrontierText(Example):
    name = "frontier_text"

    def test_the_data_are_built_by_array_jobs(self):
        self.expect_array_job("dclm", "fineweb-edu", "dolma", "zyda", "stack-v2", "finemath", parts=2)

    def test_the_plan_and_the_job_are_those_of_the_real_machine(self):
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        self.assertEqual(plan["model"]["parameters"], 8030261248)
        self.assertEqual(plan["step"]["tokens"], 1344 * 8192)
        self.assertEqual(plan["run"]["devices"], 512)
        with open(self.path("frontier.job"), encoding="utf-8") as file:
            job = file.read()
        for line in ("#SBATCH --account=ABC123\n", "#SBATCH --ntasks-per-node=8\n", "NCCL_SOCKET_IFNAME=hsn0"):
            self.assertIn(line, job)

    def test_it_goes_on_with_two_copies_of_the_weights_to_the_bits_of_the_undisturbed_training(self):
        self.expect_resumed_exactly("text", 2, 4)

    def test_it_is_better_than_an_untrained_model(self):
        self.expect_better_than_untrained("text", 0.7)
        self.expect_answers("text", 0.5)
        self.expect_report("text")

    def test_transformers_computes_the_same_loss_from_the_files_of_hugging_face(self):
        self.needs_oracle()
        self.hearth("data", "export", "--to", "bin-idx", "--split", "validation", "--out", "tokens", "data/dolma")
        ours, = [entry["loss"] for entry in self.evaluated("text")["sets"] if entry["name"] == "dolma"]
        theirs = float(self.foreign("hf", "hf", "tokens.bin", "256", "4"))
        self.assertAlmostEqual(theirs, ours, delta=2e-7)  # the difference is about 1e-8

    def test_it_is_published(self):
        self.expect_published("config.json", "model.safetensors", "tokenizer.json")


class MaskedLm(Example):
    name = "masked_lm"

    def test_the_data_are_built_by_array_jobs(self):
        self.expect_array_job("dclm", "fineweb-edu", "dolma", "zyda", "stack-v2", "finemath", parts=2)

    def test_the_plan_is_of_the_real_model_on_the_real_machine(self):
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        self.assertEqual(plan["model"]["parameters"], 1397819392)
        self.assertEqual(plan["step"]["tokens"], 768 * 16384)
        self.assertEqual(plan["run"]["devices"], 512)

    def test_it_goes_on_with_tensor_and_data_parallel_ranks_as_the_undisturbed_training(self):
        self.expect_resumed_within_rounding("mlm", 2, 4)

    def test_it_is_better_than_an_untrained_model_and_fills_holes(self):
        self.expect_better_than_untrained("mlm", 0.85)
        self.assertRegex(self.output, r"The function returns .* if the .* is empty\.")
        self.assertNotIn("[MASK]", self.output.split("is empty.")[-1])
        self.expect_report("mlm")

    def test_pytorch_computes_the_same_loss_from_the_converted_folder_with_masks_of_its_own(self):
        self.needs_oracle()
        self.hearth("data", "export", "--to", "bin-idx", "--split", "validation", "--out", "tokens", "data/dclm")
        ours, = [entry for entry in self.evaluated("mlm")["sets"] if entry["name"] == "dclm"]
        theirs = float(self.foreign("dcp-masked", "dcp", "tokens.bin", "256", "4"))
        # Two draws of hidden tokens, whose losses have a standard deviation of about 2.5.
        error = 2.5 * (2 / ours["counted_tokens"]) ** 0.5
        self.assertAlmostEqual(theirs, ours["loss"], delta=5 * error)

    def test_it_is_published(self):
        self.expect_published("hearth.json")


class NeuralPile(Example):
    name = "neural_pile"
    needs_text = False

    def test_the_data_are_built_by_an_array_job(self):
        self.expect_array_job("primate")

    def test_the_plan_is_of_the_real_model_on_the_real_machine(self):
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        self.assertEqual(plan["model"]["parameters"], 6981685248)
        self.assertEqual(plan["step"]["tokens"], 256 * 131072)
        self.assertTrue(plan["memory"]["fits"])
        self.assertEqual(plan["run"]["devices"], 512)

    def test_it_goes_on_with_tensor_and_context_parallel_ranks_as_the_undisturbed_training(self):
        self.expect_resumed_within_rounding("primate", 2, 4)

    def test_it_is_better_than_n_grams_and_than_an_untrained_model(self):
        found, = self.evaluated("primate", "--data", "unseen=data/unseen", "--split", "train", "--ngram", "2")["sets"]
        untrained, = self.evaluated(self.untrained(), "--data", "unseen=data/unseen", "--split", "train")["sets"]
        self.assertLess(found["loss"], 0.9 * min(found["ngram"]))
        self.assertLess(found["loss"], 0.2 * untrained["loss"])
        self.expect_report("primate")

    def test_it_continues_a_recording(self):
        with open(self.path("generated.npy"), "rb") as file:
            self.assertRegex(file.read(128), rb"'shape': \(32, 150,?\)")
        with open(self.path("raster.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")

    def test_pytorch_computes_the_same_loss_from_the_recordings_and_the_converted_folder(self):
        self.needs_oracle()
        ours, = self.evaluated("primate", "--data", "unseen=data/unseen", "--split", "train")["sets"]
        theirs = float(self.foreign("dcp", "dcp", "unseen", "1024", "4"))
        self.assertAlmostEqual(theirs, ours["loss"], delta=2e-7)  # the difference is about 1e-8

    def test_it_is_published(self):
        self.expect_published("hearth.json")


if __name__ == "__main__":
    chosen = {test.name: test for test in Example.__subclasses__()}
    if len(sys.argv) < 2 or sys.argv[1] not in chosen:
        sys.exit(f"usage: examples_test.py {'|'.join(chosen)}")
    if not shutil.which("bash") or not os.path.exists(HEARTH):
        sys.exit(f"{HEARTH} is not built")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        unittest.main(verbosity=2, argv=[sys.argv[0], f"{chosen[sys.argv[1]].__name__}", *sys.argv[2:]])
    finally:
        chosen[sys.argv[1]].doClassCleanups()  # whatever ended it: the cluster's daemons end, too
