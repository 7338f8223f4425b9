#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run under faults on a Slurm cluster that this machine pretends to be: does it end with the bits of an undisturbed
run, and with the goodput that the costs of its restarts predict? As root; needs the packages of
tests/support/slurm_cluster.sh.

    bench/faults.py --folder /tmp/faults                      # 2,000 steps, a fault every 40 s on average
    bench/faults.py --folder /tmp/faults --steps 1500 --every 8 --dim 64

Faults come at random (exponential times, `--seed`): SIGKILL of one rank, of all ranks, the death of a whole
node, which comes back after 20 s, and a job that takes the nodes for a second. They do not wait for the run: a fault
while nothing runs hits nothing, and does not count. Exit code 0: the bits are the same, and the goodput is at least
what the costs of restarts and saves predict; 1: one of the two is not so.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

import goodput

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLUSTER = os.path.join(ROOT, "tests", "support", "slurm_cluster.sh")
KINDS = ["rank", "rank", "rank", "all ranks", "node", "preempted"]

RUN = """[job]
dump_folder = "{name}"
[model]
dim = {dim}
n_layers = 2
[training]
seq_len = 64
local_batch_size = 4
steps = {steps}
threads = 2
[parallelism]
data_parallel_shard_degree = 2
[checkpoint]
interval = {interval}
keep_latest_k = 2
[data]
path = "data"
"""


def output_of(*words, check=False):
    return subprocess.run(words, capture_output=True, text=True, check=check).stdout


def lines_of(path):
    """The whole JSON lines of a file that may be written meanwhile."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n") and line.startswith("{")]


class Faults:
    def __init__(self, args):
        self.args = args
        self.draw = random.Random(args.seed)
        self.folder = os.path.abspath(args.folder)
        self.run = os.path.join(self.folder, "faults")
        self.slurm = os.path.join(self.folder, "slurm")
        self.hit = []  # (time, kind)
        self.dead = {}  # node: when it comes back

    def path(self, name):
        return os.path.join(self.folder, name)

    def hearth(self, *words):
        return subprocess.run([self.args.hearth, *words], capture_output=True, text=True, check=False)

    def must(self, *words):
        result = self.hearth(*words)
        if result.returncode != 0:
            sys.exit(f"hearth {' '.join(words)} failed:\n{result.stdout}{result.stderr}")

    def prepare(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.path("text"))
        for i in range(8):
            with open(self.path(f"text/{i}.txt"), "w", encoding="utf-8") as file:
                file.write(" ".join(f"word{(word * word + i) % 97}" for word in range(2000)) + "\n")
        self.must("data", "build", self.path("text"), "--out", self.path("data"))
        for name in ("undisturbed", "faults"):
            with open(self.path(f"{name}.toml"), "w", encoding="utf-8") as file:
                file.write(RUN.format(name=name, dim=self.args.dim, steps=self.args.steps, interval=self.args.interval))
        with open(self.path("cluster.toml"), "w", encoding="utf-8") as file:
            file.write("[job]\nranks_per_node = 2\nsignal_lead_seconds = 10\n[environment]\nOMP_NUM_THREADS = 1\n")
        output_of("bash", CLUSTER, "up", self.slurm, str(self.args.nodes), check=True)
        os.environ["SLURM_CONF"] = os.path.join(self.slurm, "etc", "slurm.conf")

    def status(self):
        return json.loads(self.hearth("status", "--json", self.run).stdout)

    def ranks(self):
        return output_of("pgrep", "--full", f"[h]earth-train train {self.path('faults.toml')}").split()

    def strike(self):
        """One fault. Its kind; empty: it hit nothing."""
        kind, job = self.draw.choice(KINDS), self.status()
        nodes = job.get("slurm", {}).get("nodes", "")
        # srun has the same words.
        ranks = [p for p in self.ranks() if os.path.basename(os.readlink(f"/proc/{p}/exe")) == "hearth-train"]
        if job["state"] != "running" or not ranks or not nodes:
            return ""
        if kind == "rank":
            os.kill(int(self.draw.choice(ranks)), 9)
        elif kind == "all ranks":
            for rank in ranks:
                os.kill(int(rank), 9)
        elif kind == "node":
            output_of("bash", CLUSTER, "kill", self.slurm, nodes)
            self.dead[nodes] = time.time() + 20
        else:
            output_of("sbatch", "--nodes=1", f"--nodelist={nodes}", "--exclusive", "--partition=urgent",
                      "--output=/dev/null", "--wrap=sleep 1")
        return kind

    def disturb(self):
        next_fault = time.time() + self.draw.expovariate(1 / self.args.every)
        limit = time.time() + self.args.limit_s
        while time.time() < limit:
            time.sleep(0.2)
            for node in [node for node, back in self.dead.items() if time.time() > back]:
                output_of("bash", CLUSTER, "start", self.slurm, node)
                del self.dead[node]
            if os.path.exists(os.path.join(self.run, "done.json")):
                return True
            if time.time() < next_fault:
                continue
            next_fault += self.draw.expovariate(1 / self.args.every)
            if self.status()["state"] in ("stopped", "done"):
                return self.status()["state"] == "done"
            kind = self.strike()
            if kind:
                self.hit.append((time.time(), kind))
                print(f"fault {len(self.hit)}: {kind}, step {self.status()['step']}", flush=True)
        return False

    def costs(self):
        """Seconds of a restart, from each fault to the beginning of the next step, without the time in the queue; of a
        save; and of a step."""
        records = [r for r in lines_of(os.path.join(self.run, "metrics.jsonl")) if "loss" in r]
        events = lines_of(os.path.join(self.run, "starts.jsonl"))
        queued = []
        for before, after in zip(events, events[1:]):
            if before["event"] == "end" and before["next"] in ("requeue", "leave") and after["event"] == "start":
                queued.append([time.mktime(time.strptime(e["time"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
                               for e in (before, after)])
        restarts = []
        for struck, _ in self.hit:
            later = [r for r in records if r["time"] - r["step_s"] > struck + 0.5]
            if not later:
                continue
            began = later[0]["time"] - later[0]["step_s"]
            waited = sum(max(0, min(end, began) - max(start, struck)) for start, end in queued)
            restarts.append(began - struck - waited)
        quiet = [r for r in lines_of(self.path("undisturbed/metrics.jsonl")) if "loss" in r]
        gaps = {}
        for before, after in zip(quiet, quiet[1:]):
            saves = before["step"] % self.args.interval == 0
            gaps.setdefault(saves, []).append(after["time"] - before["time"] - after["step_s"])
        save_s = statistics.mean(gaps[True]) - statistics.mean(gaps[False])
        step_s = statistics.mean(r["step_s"] for r in records) + statistics.mean(gaps[False])
        return statistics.mean(restarts or [0]), max(save_s, 0), step_s

    def report(self):
        """Whether the goodput is at least what its costs predict."""
        good = self.status()["goodput"]
        kinds = {kind: sum(k == kind for _, k in self.hit) for kind in dict.fromkeys(KINDS)}
        print(f"{len(self.hit)} faults: " + ", ".join(f"{n} x {kind}" for kind, n in kinds.items()))
        print(f"goodput {100 * good['share']:.1f} %: {good['useful_s']:.0f} s of steps that stay, of "
              f"{good['allocated_s']:.0f} s in {good['starts']} starts")
        if not self.hit:
            return True
        restart_s, save_s, step_s = self.costs()
        mtbf_s = good["allocated_s"] / len(self.hit)
        interval_s = self.args.interval * step_s
        # The first start is no restart after a fault: it comes on top.
        share = goodput.closed_form(mtbf_s, restart_s, save_s, interval_s)
        predicted_s = self.args.steps * step_s / share + restart_s
        print(f"predicted {100 * good['useful_s'] / predicted_s:.1f} % of {predicted_s:.0f} s: a fault each "
              f"{mtbf_s:.1f} s, a restart takes {restart_s:.1f} s, a save {1e3 * save_s:.0f} ms, "
              f"{self.args.interval} steps {interval_s:.1f} s; without the first start {100 * share:.1f} %")
        least = goodput.least_goodput(good["useful_s"], predicted_s, good["starts"])
        enough = good["share"] >= least
        print(f"the goodput is {'at least' if enough else 'BELOW'} what is predicted, with a second for each start: "
              f"{100 * least:.1f} %")
        return enough

    def compare(self):
        result = self.hearth("compare", self.path("undisturbed"), self.run)
        step = f"checkpoints/step-{self.args.steps:08d}"
        final = [output_of("sh", "-c", f"cd {self.path(run)}/{step} && sha256sum *.distcp")
                 for run in ("undisturbed", "faults")]
        same = final[0] == final[1] != ""
        print(f"the last checkpoints have {'the same bits' if same else 'OTHER bits'}")
        if not same:
            print(result.stdout)
        return same

    def main(self):
        self.prepare()
        try:
            self.must("train", self.path("undisturbed.toml"), "--ranks", "2")
            self.must("submit", self.path("faults.toml"), "--cluster", self.path("cluster.toml"),
                      "--max-restarts", "20")
            if not self.disturb():
                sys.exit(f"the run was not done after {self.args.limit_s:.0f} s, or stopped:\n"
                         f"{self.hearth('status', self.run).stdout}")
            time.sleep(2)
        finally:
            output_of("bash", CLUSTER, "down", self.slurm)
        enough = self.report()
        return 0 if self.compare() and enough else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hearth", default=os.path.join(ROOT, "build", "release", "bin", "hearth"))
    parser.add_argument("--folder", required=True, help="of the runs; what it had is removed")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=float, default=40, help="mean seconds between faults")
    parser.add_argument("--interval", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--dim", type=int, default=256, help="width of the model")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=3600)
    args = parser.parse_args()
    if os.path.exists(args.folder) and not os.path.exists(os.path.join(args.folder, "faults.toml")):
        parser.error(f"{args.folder} is there and is not of an earlier run")
    sys.exit(Faults(args).main())


if __name__ == "__main__":
    main()
