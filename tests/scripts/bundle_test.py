#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An archive of `scripts/setup.sh --bundle` trains elsewhere: unpacked by an ordinary user, without a network, without
the repository and its build.

Registered in CTest as scripts.bundle, with label slow. Needs root, to become somebody else.
"""

import glob
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# In a mount and a network namespace of its own. $0: the archive, $1: a folder of the user's, $2: the repository.
ELSEWHERE = r"""
set -euo pipefail
cp "$0" "$1/archive.tar.gz"
mount -t tmpfs none "$2"
[ ! -d /usr/local/cuda ] || mount -t tmpfs none /usr/local/cuda
exec setpriv --reuid=nobody --regid=nogroup --clear-groups env --ignore-environment HOME="$1" PATH=/usr/bin:/bin \
  bash -euo pipefail -c "$3" "$1"
"""
AS_USER = r"""
cd "$0"
echo "user $(id -un), routes: $(wc -l </proc/net/route)"
tar --extract --gzip --file archive.tar.gz
mv hearth-* moved
mkdir text
for i in 1 2 3; do seq 1 2000 | tr '\n' ' ' >"text/$i.txt"; done
moved/bin/hearth data build text --out data
cat >run.toml <<TOML
[job]
dump_folder = "run"
[model]
dim = 64
n_layers = 2
[training]
seq_len = 64
local_batch_size = 4
steps = 20
[data]
path = "data"
TOML
moved/bin/hearth train run.toml --ranks 2
moved/bin/hearth submit run.toml --cluster slurm_cpu --dry-run --set training.global_batch_size=-1
ls moved/share/hearth/tokenizers moved/share/licences
cat moved/share/hearth/hearth.def
"""


class Bundle(unittest.TestCase):
    def test_an_ordinary_user_trains_with_it_without_a_network(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        folder = tempfile.mkdtemp(prefix="hearth-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o755)
        home = os.path.join(folder, "home")
        os.mkdir(home)
        shutil.chown(home, "nobody")
        tokenizer = os.path.join(folder, "mine.json")
        with open(tokenizer, "w", encoding="utf-8") as file:
            file.write("{}")

        made = self.run_program("bash", os.path.join(ROOT, "scripts", "setup.sh"), "--bundle", "--cpu", "--tokenizer",
                                tokenizer)
        archive = max(glob.glob(os.path.join(ROOT, "dist", "hearth-*-linux-x86_64-cpu.tar.gz")), key=os.path.getmtime)
        self.assertIn(os.path.basename(archive), made)
        check = subprocess.run(["sha256sum", "--check", os.path.basename(archive) + ".sha256"],
                               cwd=os.path.dirname(archive), capture_output=True, check=False)
        self.assertEqual(check.returncode, 0)

        said = self.run_program("unshare", "--net", "--mount", "bash", "-c", ELSEWHERE, archive, home, ROOT, AS_USER)
        for words in ("user nobody, routes: 0\n", "step 20/20", "saved run/checkpoints/step-00000020",
                      "#SBATCH --nodes=1", "mine.json", "hearth.txt", "torch.txt", "Bootstrap: docker"):
            self.assertIn(words, said)

    def run_program(self, *words):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout


if __name__ == "__main__":
    unittest.main(verbosity=2)
