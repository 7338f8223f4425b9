#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts a newcomer meets: what they refuse, what they skip, and the quickstart from end to end.

Registered in CTest as scripts.options, scripts.setup and scripts.quickstart. By hand:
    python3 tests/scripts/scripts_test.py options|setup|quickstart
Scripts run from a copy of scripts/ in a scratch folder, with a PATH of links in which single programs are replaced, so
that nothing is installed and nothing in the repository changes; only the quickstart's last test uses the real build.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hearth-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        shutil.copytree(os.path.join(ROOT, "scripts"), os.path.join(self.folder, "scripts"))
        self.replaced = os.path.join(self.folder, "programs", "replaced")
        os.makedirs(self.replaced)
        self.path = f"{self.replaced}:/bin:/usr/bin"

    def replace(self, name, body):
        """The program `name` becomes a shell script of one line, or is taken away where `body` is None."""
        path = os.path.join(self.replaced, name)
        if os.path.lexists(path):
            os.remove(path)
        if body is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{body}\n")
            os.chmod(path, 0o755)
        elif shutil.which(name, path=self.path):
            self.hide(name)

    def hide(self, name):
        """All other programs become links in one folder. Those links take a second, so most tests do without."""
        links = os.path.join(self.folder, "programs", "links")
        if not os.path.exists(links):
            os.mkdir(links)
            for place in ("/bin", "/usr/bin"):
                for program in os.listdir(place):
                    link = os.path.join(links, program)
                    if not os.path.lexists(link):
                        os.symlink(os.path.join(place, program), link)
            self.path = f"{self.replaced}:{links}"
        os.remove(os.path.join(links, name))

    def fake_torch(self, parent, version):
        """A folder that looks like LibTorch of that version."""
        torch = os.path.join(self.folder, parent, "torch")
        os.makedirs(os.path.join(torch, "lib"))
        os.makedirs(os.path.join(torch, "include", "torch", "headeronly"))
        for name in ("__init__.py", "lib/libtorch_cpu.so"):
            open(os.path.join(torch, name), "w", encoding="utf-8").close()
        with open(os.path.join(torch, "include", "torch", "headeronly", "version.h"), "w", encoding="utf-8") as file:
            for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split(".")):
                file.write(f"#define TORCH_VERSION_{part} {number}\n")
        return torch

    def fake_arrow(self, parent, version):
        """A folder that looks like the pyarrow wheel of that version."""
        arrow = os.path.join(self.folder, parent, "pyarrow")
        os.makedirs(os.path.join(arrow, "include", "arrow", "util"))
        for name in ("libarrow.so.2600", "libparquet.so.2600"):
            open(os.path.join(arrow, name), "w", encoding="utf-8").close()
        with open(os.path.join(arrow, "include", "arrow", "util", "config.h"), "w", encoding="utf-8") as file:
            file.write(f'#define ARROW_VERSION_STRING "{version}"\n')
        return arrow

    def run_script(self, *line, **environment):
        arrow = os.path.join(self.folder, "arrow", "pyarrow")  # so that nothing is downloaded
        if not os.path.exists(arrow):
            self.fake_arrow("arrow", "26.0.1")
        settings = {"PATH": self.path, "HOME": self.folder, "LANG": "C.UTF-8", "HEARTH_ARROW": arrow, **environment}
        done = subprocess.run(["/bin/bash", *line], cwd=self.folder, env=settings, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300)
        return done.returncode, done.stdout

    def refuses(self, code, words, *line, **environment):
        returned, output = self.run_script(*line, **environment)
        self.assertEqual(returned, code, output)
        for word in ["error: "] + words:
            self.assertIn(word, output)


class Options(Scratch):
    def test_an_option_that_is_not_there_is_named_with_exit_code_2(self):
        for script in ("setup", "quickstart", "gpu", "bundle", "report_picture"):
            self.refuses(2, ["--bogus", f"scripts/{script}.sh --help"], f"scripts/{script}.sh", "--bogus")

    def test_help_says_what_every_option_does(self):
        for script, options in (("setup", ["--oracle", "--text", "--core-only", "--no-arrow"]), ("test", ["-L slow"]),
                                ("quickstart", ["--text PATH", "--exclude GLOB", "--minutes N", "--out DIR"]),
                                ("report_picture", ["--out DIR", "--steps N", "--picture FILE"]),
                                ("gpu", ["--from DIR", "--pack DIR", "--limit MIB", "--only WORD", "--minutes N",
                                          "--dry-run"])):
            code, output = self.run_script(f"scripts/{script}.sh", "--help")
            self.assertEqual(code, 0)
            for option in options:
                self.assertIn(option, output)
            self.assertNotIn("#", output)

    def test_quickstart_refuses_wrong_values_before_it_does_anything(self):
        for words, line in ((["minutes", '"0"'], ["--minutes", "0"]), (["minutes", '"x"'], ["--minutes", "x"]),
                            (["minutes", "needs a value"], ["--minutes"]), (["no file or folder", "/nowhere"], ["--text", "/nowhere"]),
                            (["exclude", "needs a value"], ["--exclude"]),
                            (["at least one"], ["--text"]), (["cannot write in /proc/x"], ["--out", "/proc/x"])):
            self.refuses(2, words, "scripts/quickstart.sh", *line)
        for words, line in ((["--steps", '"99"'], ["--steps", "99"]),
                            (["cannot write in /proc/x"], ["--out", "/proc/x"]), (["--out needs a value"], ["--out"]),
                            (["there is no build/release/bin/hearth"], [])):
            self.refuses(2, words, "scripts/report_picture.sh", *line)

    def test_setup_refuses_wrong_ways_to_bundle(self):
        for words, line in ((["--prefix needs a path"], ["--prefix"]),
                            (["--rocm needs --wheel"], ["--rocm", "--bundle"]),
                            (["there is no wheel /nowhere"], ["--bundle", "--wheel", "/nowhere"]),
                            (["--cpu goes with --prefix or --bundle"], ["--cpu"]),
                            (["--core-only does not go with"], ["--bundle", "--core-only"])):
            self.refuses(2, words, "scripts/setup.sh", *line)
        for words, line in ((["needs --prefix DIR or --archive"], []),
                            (["no tokenizer /nowhere"], ["--archive", "--tokenizer", "/nowhere"]),
                            (["/etc has other files"], ["--prefix", "/etc"])):
            self.refuses(2, words, "scripts/bundle.sh", *line)


class Setup(Scratch):
    def test_a_second_run_finds_everything_in_half_a_second_of_computing(self):
        torch = self.fake_torch("given", "2.11.0")
        before = os.times()
        code, output = self.run_script("scripts/setup.sh", HEARTH_LIBTORCH=torch)
        self.assertEqual(code, 0, output)
        self.assertIn(f"LibTorch: 2.11.0 in {torch} (HEARTH_LIBTORCH)", output)
        after = os.times()
        self.assertLess(after.children_user + after.children_system - before.children_user - before.children_system, 0.5)

    def test_with_a_prefix_sudo_is_not_used(self):
        self.replace("dpkg-query", "true")  # nothing is installed
        self.replace("sudo", "echo sudo was used; exit 1")
        self.replace("id", "echo 1000")
        self.refuses(2, ["these packages are not here: g++", "sudo is not used", "scripts/setup.sh --bundle"],
                     "scripts/setup.sh", "--prefix", os.path.join(self.folder, "out"))

    def test_libtorch_comes_from_a_given_wheel(self):
        self.fake_torch("wheel", "2.12.0")
        wheel = shutil.make_archive(os.path.join(self.folder, "torch"), "zip", os.path.join(self.folder, "wheel"))
        code, output = self.run_script("scripts/setup.sh", "--wheel", wheel)
        self.assertEqual(code, 0, output)
        self.assertIn("LibTorch: 2.12.0 in .deps/libtorch (--wheel)", output)
        self.refuses(2, ["is not a wheel"], "scripts/setup.sh", "--wheel", __file__)
        old = os.path.join(self.folder, "old-wheel")
        self.fake_torch("old-wheel", "2.6.0")
        wheel = shutil.make_archive(os.path.join(self.folder, "old-torch"), "zip", old)
        self.refuses(2, ["is 2.6.0", "2.11 or newer"], "scripts/setup.sh", "--wheel", wheel)

    def test_the_given_libtorch_must_be_one_and_new_enough(self):
        self.refuses(2, ["/nowhere is not a torch folder"], "scripts/setup.sh", HEARTH_LIBTORCH="/nowhere")
        self.refuses(2, ["is 2.6.0", "2.11 or newer"], "scripts/setup.sh", HEARTH_LIBTORCH=self.fake_torch("old", "2.6.0"))

    def test_the_torch_of_the_active_python_is_used_if_new_enough_and_named_if_not(self):
        self.fake_torch("new", "2.13.1")
        code, output = self.run_script("scripts/setup.sh", PYTHONPATH=os.path.join(self.folder, "new"))
        self.assertEqual(code, 0, output)
        self.assertIn("LibTorch: 2.13.1", output)
        self.fake_torch("old", "2.6.0")
        self.fake_torch(".deps/libtorch", "2.11.0")
        code, output = self.run_script("scripts/setup.sh", PYTHONPATH=os.path.join(self.folder, "old"))
        self.assertEqual(code, 0, output)
        self.assertIn("passing over 2.6.0", output)
        self.assertIn("LibTorch: 2.11.0 in .deps/libtorch", output)

    def test_arrow_is_the_given_one_if_new_enough_or_the_wheel_that_lies_there_or_none(self):
        self.refuses(2, ["/nowhere is not a pyarrow folder"], "scripts/setup.sh", "--core-only", HEARTH_ARROW="/nowhere")
        old = self.fake_arrow("old", "19.0.0")
        self.refuses(2, ["is 19.0.0", "26 or newer"], "scripts/setup.sh", "--core-only", HEARTH_ARROW=old)
        code, output = self.run_script("scripts/setup.sh", "--core-only", "--no-arrow", HEARTH_ARROW="/nowhere")
        self.assertEqual((code, "Arrow" in output), (0, False), output)
        self.fake_arrow(".deps/arrow", "26.0.1")
        code, output = self.run_script("scripts/setup.sh", "--core-only", HEARTH_ARROW="")
        self.assertEqual(code, 0, output)
        self.assertIn("Arrow: 26.0.1 in .deps/arrow", output)

    def test_an_arrow_that_cannot_be_installed_names_the_step_and_the_fix(self):
        self.replace("python3", None)
        fake = os.path.join(self.folder, "python")
        with open(fake, "w", encoding="utf-8") as file:  # makes no environment; its pip meets no network
            file.write('#!/bin/sh\ncase "$2" in venv) mkdir -p "$3/bin"; cp "$0" "$3/bin/python";; *) echo no route to host >&2; exit 1;; esac\n')
        os.chmod(fake, 0o755)
        script = os.path.join(self.folder, "scripts", "setup.sh")
        with open(script, encoding="utf-8") as file:
            text = file.read()
        with open(script, "w", encoding="utf-8") as file:
            file.write(text.replace("python=/usr/bin/python3", f"python={fake}"))
        self.refuses(4, ["Arrow: pip could not install it", "no route to host", "check the network"], "scripts/setup.sh", "--core-only",
                     HEARTH_ARROW="")
        self.assertFalse(os.path.exists(os.path.join(self.folder, ".deps", "arrow")))

    def test_elsewhere_than_debian_the_packages_are_listed_unless_the_compiler_finds_them(self):
        self.replace("apt-get", None)
        code, output = self.run_script("scripts/setup.sh", "--core-only")
        self.assertEqual(code, 0, output)
        self.assertIn("checked with the compiler", output)
        self.replace("g++", "exit 1")
        self.refuses(2, ["neither Debian nor Ubuntu", "libfmt-dev", "libhwy-dev"], "scripts/setup.sh", "--core-only")

    def test_a_missing_package_that_cannot_be_installed_names_the_step_and_the_fix(self):
        self.replace("dpkg-query", "printf 'installed:g++ '")
        self.replace("apt-get", "echo E: no route to host; exit 100")
        self.replace("id", "echo 0")
        self.refuses(4, ["packages: apt-get failed", "no route to host", "apt-get install cmake"], "scripts/setup.sh", "--core-only")
        self.replace("id", "echo 1000")
        self.replace("sudo", None)
        self.refuses(2, ["no sudo", "as root: apt-get install cmake"], "scripts/setup.sh", "--core-only")
        self.replace("sudo", 'echo "by sudo: $*"; exit 1')
        self.refuses(4, ["by sudo:"], "scripts/setup.sh", "--core-only")

    def test_tools_that_are_too_old_are_named(self):
        self.replace("cmake", "echo cmake version 3.22.1")
        self.refuses(2, ["CMake 3.22.1 is too old", "3.25"], "scripts/setup.sh", "--core-only")

    def test_a_full_disk_is_noticed_before_the_download(self):
        self.replace("df", "echo Avail; echo 1000000")
        self.refuses(4, ["LibTorch: needs 3 GB free", "there are 1 GB"], "scripts/setup.sh")


class Quickstart(unittest.TestCase):
    """The real script on the real build, on a small text made of random words."""

    def quickstart(self, *options):
        line = ["/bin/bash", os.path.join(ROOT, "scripts", "quickstart.sh"), *options]
        done = subprocess.run(line, cwd=self.folder, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=900)
        return done.returncode, done.stdout

    def test_it_trains_evaluates_and_writes_and_a_second_run_keeps_the_first(self):
        scratch = tempfile.TemporaryDirectory(prefix="hearth-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        text = os.path.join(self.folder, "text")
        os.mkdir(text)
        numbers = random.Random(1)  # the same text for ever: which documents are held out hangs on their hashes
        words = ["".join(numbers.choices("etaoinshr", k=numbers.randint(2, 8))) for _ in range(200)]
        for document in range(60):
            with open(os.path.join(text, f"{document}.txt"), "w", encoding="utf-8") as file:
                file.write(" ".join(numbers.choices(words, k=800)) + "\n")
        code, output = self.quickstart("--text", "text", "--minutes", "0.02", "--out", "out")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"run: \d+ steps of [0-9.]+ s for 0.02 minutes")
        for said in ("packages: all there", "step 20/20", "bits per byte", "order 6", "generate: a passage\nThe ", "What to try next"):
            self.assertIn(said, output)
        with open(os.path.join(self.folder, "out", "run.toml"), encoding="utf-8") as file:
            frozen = file.read()
        self.assertIn("steps = 20  # 0.02 minutes at ", frozen)

        code, output = self.quickstart("--out", "out", "--minutes", "3")
        self.assertEqual(code, 0, output)
        self.assertIn("run.toml is kept as it is: 20 steps", output)
        self.assertIn("nothing to do: 20 of 20 steps are done", output)
        with open(os.path.join(self.folder, "out", "run.toml"), encoding="utf-8") as file:
            self.assertEqual(file.read(), frozen)

        code, output = self.quickstart("--out", "out", "--text", __file__)
        self.assertEqual(code, 2, output)
        self.assertIn("was made from other text", output)


if __name__ == "__main__":
    part = sys.argv[1].capitalize() if len(sys.argv) > 1 else ""
    if part not in ("Options", "Setup", "Quickstart"):
        sys.exit("usage: scripts_test.py options|setup|quickstart")
    unittest.main(argv=[sys.argv[0], part])
