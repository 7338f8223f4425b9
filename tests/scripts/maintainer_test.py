#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts of who changes Hearth: check.sh looks at the sources, test.sh runs tests, release.sh makes an archive.

Registered in CTest as scripts.check, scripts.test and scripts.release. By hand:
    python3 tests/scripts/maintainer_test.py check|test|release
As in scripts_test.py, they run from a copy in a scratch folder, and programs that take long are replaced.
"""

import os
import subprocess
import sys
import tarfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import scripts_test  # noqa: E402

PERSON = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
          for what, value in (("NAME", "A"), ("EMAIL", "a@b.c"), ("DATE", "2026-11-23T12:00:00Z"))}

FINDS_FAULTS = """
code=0
for file in "$@"; do
  case "$file" in *.*) if grep --quiet f4ult "$file"; then echo "$file: a fault"; code=1; fi ;; esac
done
exit $code"""

# The fake cmake lists three sources: one is a test, one is generated.
FAKES = {
    "clang-format-14": """
case "$1" in
  --version) echo version 14.0.6 ;;
  -i) shift; sed --in-place s/ugly/fair/ "$@" ;;
  *)
    shift 2
    grep --with-filename --line-number ugly "$@" | sed 's/ugly/ error: code should be clang-formatted [-W]/'
    ! grep --quiet ugly "$@" ;;
esac""",
    "clang-tidy-14": f"""
if [ "$1" = --version ]; then echo version 14.0.6; exit; fi
shift 3  # -p FOLDER --quiet
{FINDS_FAULTS}""",
    "shellcheck": FINDS_FAULTS,
    "cmake": """
echo "$@" >>cmake.log
for file in src/a.cpp tests/b.cpp build/c.cpp; do
  printf '  "file": "%s/%s"\\n' "$PWD" "$file"
done >"$4/compile_commands.json"
""",
}

INSTALLS = """
if [ "$1" != --install ]; then exit; fi
mkdir -p "$4/bin"
printf '#!/bin/sh\\n%s\\n' '{program}' >"$4/bin/hearth"
chmod +x "$4/bin/hearth"
"""


class Maintainer(scripts_test.Scratch):
    def write(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            return file.read()

    def passes(self, words, *line, **environment):
        code, output = self.run_script(*line, **environment)
        self.assertEqual(code, 0, output)
        for word in words:
            self.assertIn(word, output)
        return output


class Check(Maintainer):
    """The clang-format of these tests finds "ugly" in a file, their clang-tidy and shellcheck find "f4ult"."""

    def setUp(self):
        super().setUp()
        for name, body in FAKES.items():
            self.replace(name, body)
        self.write("src/a.cpp", "int a;\n")
        self.write("src/a.h", "int a;\n")
        self.write("tests/b.cpp", "int b;\n")
        self.write("build/c.cpp", "f4ult\n")
        self.write(".ci/run", "true\n")
        self.write("examples/a/run.sh", "true\n")
        self.write("tests/tidy/tidy_test.py", "import sys\nsys.exit(sys.argv[1] != 'sources')\n")

    def test_all_four_run_and_find_nothing_in_a_good_tree(self):
        checks = ("format", "rules", "shell", "clang-tidy")
        output = self.passes([f"{check}: nothing found" for check in checks], "scripts/check.sh")
        self.assertIn("clang-tidy: 1 files", output)
        self.assertIn("-DHEARTH_TORCH=OFF", self.read("cmake.log"))

    def test_what_one_finds_is_an_error_and_the_others_still_run(self):
        self.write("src/a.h", "int a;\nugly\n")
        self.refuses(1, ["src/a.h:2: clang-format would change this line", "rules: nothing", "clang-tidy: nothing",
                         "findings of format are"], "scripts/check.sh")
        self.write("scripts/bad.sh", "f4ult\n")
        self.write("src/a.cpp", "f4ult\n")
        self.write("tests/tidy/tidy_test.py", "import sys\nsys.exit('src/a.h:1: long')\n")
        self.refuses(1, ["src/a.h:1: long", "scripts/bad.sh: a fault", "src/a.cpp: a fault",
                         "findings of format rules shell clang-tidy are"], "scripts/check.sh")

    def test_the_format_is_rewritten_if_asked(self):
        self.write("src/a.h", "ugly\n")
        self.write("tests/b.cpp", "ugly\n")
        self.passes(["nothing found"], "scripts/check.sh", "--fix", "format", "src/a.h")
        self.assertEqual((self.read("src/a.h"), self.read("tests/b.cpp")), ("fair\n", "ugly\n"))
        self.passes(["nothing found"], "scripts/check.sh", "--fix", "format")
        self.assertEqual(self.read("tests/b.cpp"), "fair\n")

    def test_given_files_alone_are_looked_at_and_those_of_another_kind_passed_over(self):
        for path in ("src/a.cpp", "tests/b.cpp", "scripts/bad.sh"):
            self.write(path, "ugly f4ult\n")
        self.passes([], "scripts/check.sh", "format", "src/a.h", "scripts/bad.sh")
        self.passes([], "scripts/check.sh", "shell", "scripts/check.sh", "src/a.cpp")
        others = ("src/a.h", "scripts/bad.sh", "tests/b.cpp")
        self.passes(["clang-tidy: 0 files"], "scripts/check.sh", "clang-tidy", *others)
        self.refuses(1, ["tests/b.cpp: a fault"], "scripts/check.sh", "--all", "clang-tidy", "tests/b.cpp")
        self.assertIn("-DHEARTH_TORCH=ON", self.read("cmake.log"))

    def test_wrong_options_and_missing_programs_are_named(self):
        self.refuses(2, ["--bogus", "scripts/check.sh --help"], "scripts/check.sh", "--bogus")
        self.refuses(2, ['no check "bogus"'], "scripts/check.sh", "bogus")
        self.refuses(2, ['no file "gone.h"'], "scripts/check.sh", "format", "gone.h")
        self.replace("cmake", "echo no such preset; exit 1")
        self.refuses(2, ["clang-tidy: cmake failed", "no such preset"], "scripts/check.sh", "clang-tidy")
        for check, program in (("format", "clang-format"), ("clang-tidy", "clang-tidy"), ("shell", "shellcheck")):
            self.replace(f"{program}-14", None)
            self.replace(program, "echo version 19.1.0" if check != "shell" else None)
            self.refuses(2, [program, "not installed", "scripts/setup.sh --core-only --checks"],
                         "scripts/check.sh", check)

    def test_setup_installs_the_programs(self):
        self.replace("dpkg-query", "printf installed:%s' ' $(echo $* | sed 's/shellcheck//')")
        self.replace("cmake", "echo cmake version 3.25.1")
        self.replace("apt-get", 'echo "$@"; exit 1')
        self.replace("id", "echo 0")
        self.refuses(4, ["checks: installing shellcheck ", "apt-get install shellcheck"],
                     "scripts/setup.sh", "--core-only", "--checks")
        self.passes([], "scripts/setup.sh", "--core-only")

    def test_help_says_what_every_option_does(self):
        for script, options in (("setup", ["--checks"]), ("check", ["--fix", "--all", "clang-tidy"]),
                                ("release", ["--tag", "--dry-run"])):
            self.assertNotIn("#", self.passes(options, f"scripts/{script}.sh", "--help"))


class Release(Maintainer):
    """A repository of the scripts and little else, whose build is a script that says a version."""

    def setUp(self):
        super().setUp()
        self.write(".gitignore", "/build\n/dist/\n/programs\n/arrow\n")
        self.write("CMakeLists.txt", "project(hearth VERSION 1.2.3 LANGUAGES CXX)\n")
        self.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Next.\n\n"
                                   "## 1.2.3 (today)\n\n- New.\n\n## 1.2.30\n\n- Old.\n")
        self.write("LICENSE", "free\n")
        self.write("README.md", "read\n")
        self.replace("ninja", "exit 0")
        self.fake_build('echo "hearth 1.2.3 (Release)"')
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "all")

    def fake_build(self, program):
        """The build makes a hearth that is this line of shell."""
        self.replace("cmake", INSTALLS.format(program=program))

    def git(self, *line):
        settings = {"PATH": self.path, "HOME": self.folder, **PERSON}
        done = subprocess.run(["git", *line], cwd=self.folder, env=settings, check=True, text=True,
                              stdout=subprocess.PIPE)
        return done.stdout

    def archives(self):
        dist = os.path.join(self.folder, "dist")
        return sorted(os.listdir(dist)) if os.path.exists(dist) else []

    def test_a_dry_run_says_what_would_be_done_and_does_nothing(self):
        output = self.passes(["would build", "hearth-1.2.3-linux-", "would tag the commit v1.2.3", "- New."],
                             "scripts/release.sh", "1.2.3", "--tag", "--dry-run")
        self.assertNotIn("- Old.", output)
        self.assertNotIn("- Next.", output)
        self.assertEqual((self.archives(), self.git("tag"), self.git("status", "--porcelain")), ([], "", ""))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "build")))

    def test_the_archive_is_whole_says_its_version_and_has_a_hash_and_a_tag(self):
        self.passes(['says "hearth 1.2.3 (Release)"'], "scripts/release.sh", "1.2.3", **PERSON)
        self.assertEqual(self.git("tag"), "")
        archive, checksum = self.archives()
        self.assertEqual(checksum, archive + ".sha256")
        first = self.read(f"dist/{checksum}")
        subprocess.run(["sha256sum", "--check", "--quiet", checksum], cwd=os.path.join(self.folder, "dist"), check=True)
        name = archive.removesuffix(".tar.gz")
        with tarfile.open(os.path.join(self.folder, "dist", archive)) as tar:
            self.assertEqual(sorted(m.name for m in tar if m.isfile()),
                             [f"{name}/{file}" for file in ("CHANGELOG.md", "LICENSE", "README.md", "bin/hearth")])
            self.assertEqual({(m.uid, m.uname) for m in tar}, {(0, "")})
            self.assertEqual(tar.extractfile(f"{name}/CHANGELOG.md").read().decode(), "# Hearth 1.2.3\n\n- New.\n")

        self.passes(["tag: v1.2.3"], "scripts/release.sh", "1.2.3", "--tag", **PERSON)
        self.assertEqual(self.read(f"dist/{checksum}"), first, "the same files make the same archive")
        self.assertEqual(self.git("for-each-ref", "--format=%(objecttype) %(contents)", "refs/tags/v1.2.3").strip(),
                         "tag Hearth 1.2.3\n\n- New.")
        self.refuses(2, ["there is a tag v1.2.3 already"], "scripts/release.sh", "1.2.3", "--tag")

    def test_a_release_that_is_not_ready_is_refused(self):
        for words, line in ((["needs a version"], []), (['"1.2" is not a version'], ["1.2"]),
                            (["--bogus"], ["1.2.3", "--bogus"]), (["one version"], ["1.2.3", "1.2.4"]),
                            (["has version 1.2.3, not 1.2.4"], ["1.2.4"])):
            self.refuses(2, words, "scripts/release.sh", *line)
        self.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- New.\n\n## 1.2.3\n\n## 1.2.2\n\n- Old.\n")
        self.refuses(2, ["the tree is not clean", "CHANGELOG.md"], "scripts/release.sh", "1.2.3", "--dry-run")
        self.git("commit", "--quiet", "--all", "--message", "notes")
        self.refuses(2, ["no notes of 1.2.3", "Unreleased"], "scripts/release.sh", "1.2.3")
        self.assertEqual(self.archives(), [])

    def test_an_archive_whose_program_is_another_version_or_does_not_run_is_not_kept(self):
        self.fake_build('echo "hearth 1.2.2 (Release)"')
        self.refuses(5, ["is not 1.2.3", "hearth 1.2.2"], "scripts/release.sh", "1.2.3", "--tag")
        self.fake_build("exit 3")
        self.refuses(5, ["does not run"], "scripts/release.sh", "1.2.3", "--tag")
        self.assertEqual((self.archives(), self.git("tag")), ([], ""))


# CTest's log of tests that are skipped in each of three ways, and of others.
LAST_TEST_LOG = """1/3 Testing: train.fast
1/3 Test: train.fast
[ RUN      ] Step.IsRight
[       OK ] Step.IsRight (3 ms)
[ RUN      ] On/Step.IsRight/AGpu
/src/tests/train/step_test.cpp:30: Skipped
needs a GPU: no driver

[  SKIPPED ] On/Step.IsRight/AGpu (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] On/Step.IsRight/AGpu
2/3 Test: scripts.wandb
test_real (__main__.Wandb.test_real) ... skipped 'the package wandb is not installed'
test_other (__main__.Wandb.test_other) ... ok
3/3 Test: kernels.nvcc
skipped: nothing here builds hearth_cuda
"""


class Test(Maintainer):
    """Nothing is built or run: ctest leaves the log above."""

    def setUp(self):
        super().setUp()
        self.write("scripts/setup.sh", "exit 0\n")
        os.chmod(os.path.join(self.folder, "scripts/setup.sh"), 0o755)
        self.write("build/release/build.ninja", "")
        self.replace("ninja", "exit 0")

    def test_what_is_skipped_is_named_with_its_reason(self):
        self.write("log", LAST_TEST_LOG)
        self.replace("ctest", "mkdir -p build/release/Testing/Temporary; "
                              "cp log build/release/Testing/Temporary/LastTest.log; "
                              "echo '100% tests passed, 0 tests failed out of 3'")
        output = self.passes(["100% tests passed", "1 tests passed, 1 skipped"], "scripts/test.sh")
        self.assertEqual(output.split("skipped, and why:\n")[1],
                         "  On/Step.IsRight/AGpu: needs a GPU: no driver\n"
                         "  kernels.nvcc: nothing here builds hearth_cuda\n"
                         "  scripts.wandb test_real: 'the package wandb is not installed'\n")

    def test_without_skipped_tests_nothing_is_said_of_them(self):
        self.replace("ctest", "mkdir -p build/release/Testing/Temporary; "
                              ": >build/release/Testing/Temporary/LastTest.log")
        self.assertNotIn("skipped", self.passes([], "scripts/test.sh"))


if __name__ == "__main__":
    part = sys.argv[1].capitalize() if len(sys.argv) > 1 else ""
    if part not in ("Check", "Test", "Release"):
        sys.exit("usage: maintainer_test.py check|test|release")
    unittest.main(argv=[sys.argv[0], part])
