#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/step.py and the programs on PyTorch that it measures: they compute what they should, or get no figure.

Registered in CTest as scripts.bench_step. It runs in the oracle's Python (scripts/setup.sh --oracle). Where torchtitan
is not in .deps/torchtitan, its cases are skipped.
"""

import contextlib
import io
import json
import os
import stat
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ORACLE = os.path.join(ROOT, ".deps", "oracle", "bin", "python")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "bench"))

try:
    import torch
    import transformers
except ImportError:
    if not os.path.exists(ORACLE) or os.environ.get("HEARTH_IN_ORACLE"):
        print("skipped: there is no PyTorch here; scripts/setup.sh --oracle installs it")
        sys.exit(0)
    os.execve(ORACLE, [ORACLE, *sys.argv], {**os.environ, "HEARTH_IN_ORACLE": "1"})

import attention_check  # noqa: E402
import pytorch_step  # noqa: E402
import step  # noqa: E402
import torchtitan_step  # noqa: E402
import training_loop  # noqa: E402

SDPA = torch.nn.functional.scaled_dot_product_attention
SIZES = {"dim": 64, "n-layers": 2, "n-heads": 4, "n-kv-heads": 2, "hidden-dim": 96, "vocab-size": 300, "seq-len": 32,
         "local-batch-size": 2}
ARGUMENTS = [*(f"--{name}={value}" for name, value in SIZES.items()), "--steps=3", "--warmup=2",
             "--loss-chunk-tokens=16"]
HAS_TORCHTITAN = torchtitan_step.found_in(torchtitan_step.FOLDER)[0] is not None
needs_torchtitan = unittest.skipUnless(HAS_TORCHTITAN, f"torchtitan is not here: {torchtitan_step.INSTALL}")


class Noting(attention_check.AttentionCheck):
    """Notes graphs as the check does, and runs them as they are: inductor would take a minute."""

    def backend(self, graph, inputs):
        self.see_graph(graph)
        return graph.forward


def qkv(kv_heads=2):
    return [torch.randn(1, heads, 16, 8) for heads in (4, kv_heads, kv_heads)]


def causal_mask():
    return torch.ones(1, 1, 16, 16, dtype=torch.bool).tril()


def by_hand(q, k, v):
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2)
    return scores.masked_fill(~causal_mask(), float("-inf")).softmax(-1) @ v.repeat_interleave(2, 1)


class Checks(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def findings(self, function, *arguments, compiled=True):
        check = Noting(kv_heads=2)
        if compiled:
            torch.compile(function, backend=check.backend)(*arguments)
        else:
            with check:
                function(*arguments)
        return check.findings()

    def test_causal_attention_without_a_mask_is_accepted(self):
        for compiled in (True, False):
            self.assertEqual(self.findings(lambda q, k, v: SDPA(q, k, v, is_causal=True, enable_gqa=True), *qkv(),
                                           compiled=compiled), [])
        # Positional, and with as many keys as queries where the model has as many.
        check = Noting(kv_heads=4)
        torch.compile(lambda q, k, v: SDPA(q, k, v, None, 0.0, True), backend=check.backend)(*qkv(4))
        self.assertEqual(check.findings(), [])

    def test_a_mask_repeated_keys_and_what_the_check_cannot_see_are_found(self):
        masked = "attention gets a mask of [1, 1, 16, 16]"
        repeated = "keys are repeated from 2 to 4 heads"

        def repeating(q, k, v):
            return SDPA(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True)

        def in_a_branch(q, k, v):  # inside an operator of higher order, so in a graph of its own
            def body(q, k, v):
                return SDPA(q, k, v, attn_mask=causal_mask(), enable_gqa=True)
            return torch.utils.checkpoint.checkpoint(body, q, k, v, use_reentrant=False)

        for function, expected in (
                (lambda q, k, v: SDPA(q, k, v, attn_mask=causal_mask(), enable_gqa=True), [masked]),
                (lambda q, k, v: SDPA(q, k, v, causal_mask(), enable_gqa=True), [masked]),
                (lambda q, k, v: SDPA(q, k, v, torch.zeros(16, 16), enable_gqa=True),
                 ["attention gets a mask of [16, 16]"]),
                (repeating, [repeated]),
                (lambda q, k, v: SDPA(q, k, v, enable_gqa=True), ["attention is not causal"]),
                (in_a_branch, [masked]),
                (by_hand, ["no call of scaled_dot_product_attention was seen"])):
            self.assertEqual(self.findings(function, *qkv()), expected)
            self.assertEqual(self.findings(function, *qkv(), compiled=False), expected)

    def test_a_mask_that_is_an_input_of_the_graph_is_found(self):
        self.assertEqual(self.findings(lambda q, k, v, mask: SDPA(q, k, v, attn_mask=mask, enable_gqa=True), *qkv(),
                                       causal_mask()), ["attention gets a mask of [1, 1, 16, 16]"])

    def test_the_slow_kernel_is_refused(self):
        q, k, v = qkv()
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            kernels = attention_check.kernels_of(lambda: SDPA(q, k, v, is_causal=True, enable_gqa=True))
        self.assertEqual(kernels, ["attention_math"])
        with self.assertRaisesRegex(SystemExit, "error: it: attention ran by attention_math\n  why: "):
            attention_check.require_fast_kernels(kernels, "it")
        with self.assertRaisesRegex(SystemExit, "a kernel that the profiler does not name"):
            attention_check.require_fast_kernels([], "it")
        kernels = attention_check.kernels_of(lambda: SDPA(q, k, v, is_causal=True, enable_gqa=True))
        self.assertEqual(kernels, ["flash_attention_for_cpu"])
        attention_check.require_fast_kernels(kernels, "it")


class Programs(unittest.TestCase):
    """Whole measurements at a tiny shape, with graphs that run as they are."""

    def setUp(self):
        torch._dynamo.reset()
        for module in (pytorch_step, torchtitan_step):
            self.replace(module, "AttentionCheck", Noting)

    def replace(self, module, name, value):
        self.addCleanup(setattr, module, name, getattr(module, name))
        setattr(module, name, value)

    @staticmethod
    def forget_torchtitan():
        for name in [name for name in sys.modules if name.split(".")[0] == "torchtitan"]:
            del sys.modules[name]

    def measured(self, program, *arguments):
        output = io.StringIO()
        self.replace(sys, "argv", ["program", *ARGUMENTS, *arguments])
        with contextlib.redirect_stdout(output):
            program.main()
        return json.loads(output.getvalue())

    def refused(self, program, *arguments):
        """Why, and nothing was printed."""
        output = io.StringIO()
        self.replace(sys, "argv", ["program", *ARGUMENTS, *arguments])
        with contextlib.redirect_stdout(output), self.assertRaises(SystemExit) as stop:
            program.main()
        self.assertEqual(output.getvalue(), "")
        return str(stop.exception)

    def test_all_three_ways_train_to_the_same_loss_and_the_whole_one_says_that_it_has_a_mask(self):
        eager, layers, whole = (self.measured(pytorch_step, f"--compile={how}") for how in ("eager", "layers", "whole"))
        for result in (eager, layers, whole):
            self.assertAlmostEqual(result["loss"], eager["loss"], delta=1e-5 * eager["loss"])
            self.assertAlmostEqual(result["loss_unchunked"], result["loss"], delta=1e-5 * eager["loss"])
            self.assertEqual(result["attention_kernels"], ["flash_attention_for_cpu"])
            self.assertGreater(result["tokens_per_second"], 0)
        self.assertLess(eager["loss"], 5.75)  # it learns: a model that knows nothing has ln 300 = 5.70 and more
        self.assertEqual((eager["attention_mask"], layers["attention_mask"]), (False, False))
        version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
        self.assertEqual(whole["attention_mask"], version < (2, 14))
        self.assertIn("compiled by layer", layers["program"])
        self.assertIn("compiled whole, as most people write it", whole["program"])

    def test_micro_batches_and_bfloat16_keep_the_loss(self):
        one = self.measured(pytorch_step)
        two = self.measured(pytorch_step, "--accumulate=2")  # the same tokens twice: the same mean gradient
        self.assertAlmostEqual(two["loss"], one["loss"], delta=2e-5 * one["loss"])
        half = self.measured(pytorch_step, "--dtype=bfloat16")
        self.assertAlmostEqual(half["loss"], one["loss"], delta=2e-3 * one["loss"])

    def test_layers_that_get_a_mask_get_no_figure(self):
        self.replace(transformers.masking_utils, "_ignore_causal_mask_sdpa", lambda *a, **k: False)
        why = self.refused(pytorch_step)
        self.assertIn("compiled by layer: attention gets a mask of [2, 1, 32, 32]", why)
        self.assertIn("keys are repeated from 2 to 4 heads", why)
        self.assertIn("eager: attention gets a mask", self.refused(pytorch_step, "--compile=eager"))

    def test_a_loss_that_is_another_gets_no_figure(self):
        right = training_loop.random_tokens

        def shifted(options):
            tokens, labels = right(options)
            return tokens, labels.roll(1, 1)  # each position has its own token as label

        self.replace(training_loop, "random_tokens", shifted)
        self.assertRegex(self.refused(pytorch_step), r"its loss is [0-9.]+, and [0-9.]+ without chunks and uncompiled")

    def test_a_graph_that_is_compiled_while_steps_are_timed_gets_no_figure(self):
        self.assertRegex(self.refused(pytorch_step, "--warmup=0"), "[0-9]+ graphs were compiled in timed steps")

    def test_chunks_that_do_not_divide_the_tokens_are_refused(self):
        self.assertIn("64 tokens have no chunks of 24", self.refused(pytorch_step, "--loss-chunk-tokens=24"))

    @needs_torchtitan
    def test_torchtitan_has_the_same_model(self):
        self.addCleanup(self.forget_torchtitan)
        self.replace(sys, "path", list(sys.path))
        result, other = self.measured(torchtitan_step), self.measured(pytorch_step)
        self.assertEqual(result["parameters"], other["parameters"])
        self.assertAlmostEqual(result["loss_unchunked"], result["loss"], delta=1e-5 * result["loss"])
        self.assertEqual((result["attention_mask"], result["attention_kernels"]), (False, ["flash_attention_for_cpu"]))
        self.assertEqual(result["program"], "torchtitan 0.2.2, compiled by block")

    def test_without_torchtitan_or_with_another_version_it_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("torchtitan is not here", self.refused(torchtitan_step, f"--torchtitan={folder}"))
            os.makedirs(os.path.join(folder, "torchtitan"))
            os.makedirs(os.path.join(folder, "torchtitan-9.0.dist-info"))
            with open(os.path.join(folder, "torchtitan-9.0.dist-info", "METADATA"), "w", encoding="utf-8") as file:
                file.write("Metadata-Version: 2.1\nName: torchtitan\nVersion: 9.0\n")
            why = self.refused(torchtitan_step, f"--torchtitan={folder}")
        self.assertIn("torchtitan 9.0 in ", why)
        self.assertIn("fix: python -m pip install --no-deps --target .deps/torchtitan torchtitan==0.2.2", why)


# In place of `hearth bench step` and of the programs on PyTorch. Theirs write what they were told to a file, and refuse
# their figure where the shape has 7 layers.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
values = dict(a.lstrip("-").split("=") for a in sys.argv[1:] if a.startswith("--") and "=" in a)
with open(os.path.join(FOLDER, "told"), "a") as file:
    file.write(" ".join(sys.argv[1:]) + f" MALLOC={os.environ.get('MALLOC_TOP_PAD_', '')}\\n")
for i in range(2 + int(values["steps"])):
    if not sys.stdin.readline():
        sys.exit(9)
    print(1.0 if sys.argv[1] == "bench" else 1.5, flush=True)
if values["n-layers"] == "7":
    sys.exit("error: this figure is refused")
facts = {} if sys.argv[1] == "bench" else {"program": "PyTorch's", "attention_kernels": ["fast"], "loss": 2,
                                           "loss_unchunked": 2, "attention_mask": values["compile"] == "whole"}
print(json.dumps({"memory_bytes": 1 << 30, "page_faults_per_step": 0, **facts}))
"""


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(os.path.join(self.folder, "bench"))
        for name in ("hearth", "bench/pytorch_step.py"):
            path = os.path.join(self.folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM.replace("FOLDER", repr(self.folder)))
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        step.SHAPES["tiny"] = dict(SIZES)
        self.addCleanup(step.SHAPES.pop, "tiny")
        self.addCleanup(setattr, step, "ROOT", step.ROOT)
        self.addCleanup(setattr, step, "gemm_flops", step.gemm_flops)
        step.ROOT, step.gemm_flops = self.folder, lambda device: 1e9

    def run_step(self, *arguments):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            step.main([f"--hearth={self.folder}/hearth", "--shape=tiny", "--rounds=2", *arguments])
        return output.getvalue()

    def names(self, *arguments):
        options, shapes = step.parsed(["--shape=small", *arguments])
        wanted, made = step.tables_wanted(options), step.tables(shapes["small"], options)
        return {name: list(made[name]) for name in wanted if name in made}

    def test_a_table_has_a_row_for_each_program_and_says_what_it_measured(self):
        output = self.run_step("--table=eager", "--accumulate=3")
        rows = [line for line in output.splitlines() if line.startswith("| ")]
        rows = [[cell.strip() for cell in row.split("|")[1:4]] for row in rows]
        # 3 micro-batches of 2 x 32 tokens in 1 s and in 1.5 s.
        self.assertEqual(rows[1:], [["Hearth", "192", "1.00x"], ["eager", "128", "1.50x"],
                                    ["eager, malloc tuned", "128", "1.50x"]])
        self.assertIn("\neager: PyTorch's; attention by fast; loss 2, without chunks and uncompiled 2\n", output)
        with open(os.path.join(self.folder, "told"), encoding="utf-8") as file:
            hearth, eager, tuned = file.read().splitlines()
        self.assertIn("--set training.global_batch_size=6 ", hearth + " ")
        for told in (eager, tuned):
            self.assertIn("--compile=eager", told)
            self.assertIn("--accumulate=3", told)
        self.assertTrue(eager.endswith("MALLOC=") and not tuned.endswith("MALLOC="))
        # The turn of the step beyond the rounds comes when all rounds are over: what follows it disturbs none.
        for told in (hearth, eager, tuned):
            self.assertIn("--steps=3", told)

    def test_the_row_of_the_model_compiled_whole_says_that_attention_has_a_mask(self):
        row = "| compiled whole, as most people write it (attention has a mask) | "
        self.assertIn(row, self.run_step("--table=whole"))
        self.assertIn("| compiled by layer | ", self.run_step("--table=compiled", f"--torchtitan={self.folder}"))

    def test_a_program_that_refuses_its_figure_ends_the_measurement(self):
        step.SHAPES["tiny"]["n-layers"] = 7
        with self.assertRaisesRegex(SystemExit, "error: .*hearth bench step .*: status 1"):
            self.run_step("--table=eager")

    def test_the_tables_of_all_are_the_fair_ones(self):
        none = f"--torchtitan={self.folder}"
        self.assertEqual(self.names(none), {
            "eager": ["Hearth", "eager", "eager, malloc tuned"],
            "compiled": ["Hearth", "compiled by layer", "compiled by layer, malloc tuned"]})
        self.assertEqual(list(self.names(none, "--table=whole")["whole"])[1], "compiled whole, as most people write it")

    @needs_torchtitan
    def test_torchtitan_is_beside_the_model_compiled_by_layer(self):
        self.assertEqual(self.names()["compiled"], ["Hearth", "compiled by layer", "compiled by layer, malloc tuned",
                                                    "torchtitan, malloc tuned"])

    def test_wrong_requests_are_refused(self):
        none = f"--torchtitan={self.folder}"
        for arguments, why in ((["--table=torchtitan", none], "torchtitan is not here: python"),
                               (["--table=float8"], "measured on a GPU only"),
                               (["--shape=llama3_1b"], "--shape llama3_1b is none of --device cpu's"),
                               (["--against=other", "--table=eager"], "leave out --table")):
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
                step.parsed(arguments)
            self.assertIn(why, errors.getvalue())


if __name__ == "__main__":
    unittest.main(verbosity=2)
