#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The goodput of a long run on many nodes: the share of its time that goes into steps that stay. A simulation with
failures at random, next to the closed form of Daly (2006), and next to the goal of 97 %.

    bench/goodput.py                                        # 512 nodes that fail once an hour together
    bench/goodput.py --restart-s 20 --save-s 0.3            # with other costs
    bench/goodput.py --table                                # which costs reach the goal

The model: each node fails at random with the same rate. A failure loses the work since the last save, and a restart
takes `--restart-s` until the first step begins; it may fail as well. A save stalls the training for `--save-s`. Saves
come every `--interval-s`; without it, at the best interval.
"""

import argparse
import math
import random

GOAL = 0.97


def closed_form(mtbf_s, restart_s, save_s, interval_s):
    """Goodput by J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
    Generation Computer Systems 22 (2006): failures of a Poisson process, which hit saves and restarts, too."""
    cycle = math.expm1((interval_s + save_s) / mtbf_s)
    return interval_s / (mtbf_s * math.exp(restart_s / mtbf_s) * cycle)


def least_goodput(useful_s, predicted_s, starts):
    """The goodput of a run whose jobs together took the predicted time, and a second more for each start: the times of
    starts and ends are whole seconds."""
    return useful_s / (predicted_s + starts)


def first_order_interval(mtbf_s, save_s):
    """Young's interval (1974): the square root of twice the cost of a save times the time between failures."""
    return math.sqrt(2 * save_s * mtbf_s)


def best_interval(mtbf_s, restart_s, save_s):
    """The interval with the highest closed form, by golden section."""
    low, high = 1e-3, 4 * mtbf_s
    ratio = (math.sqrt(5) - 1) / 2
    while high - low > 1e-6 * high:
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if closed_form(mtbf_s, restart_s, save_s, a) < closed_form(mtbf_s, restart_s, save_s, b):
            low = a
        else:
            high = b
    return (low + high) / 2


def simulate(nodes, mtbf_s, restart_s, save_s, interval_s, failures, seed):
    """Goodput of a run until the job of `nodes` nodes, of which one fails every `mtbf_s` on average, has failed
    `failures` times. Each node has its own exponential lifetime and is replaced at once by one that is new."""
    draw = random.Random(seed)
    node_rate = 1 / (mtbf_s * nodes)
    lives = [draw.expovariate(node_rate) for _ in range(nodes)]  # when each node fails
    now = useful = 0.0
    restarting = restart_s  # what is left of a restart; the run begins with one
    for _ in range(failures):
        node = min(range(nodes), key=lives.__getitem__)
        failure = lives[node]
        lives[node] = failure + draw.expovariate(node_rate)
        left = failure - now
        now = failure
        if left < restarting:
            restarting = restart_s
            continue
        left -= restarting
        saves = math.floor(left / (interval_s + save_s))  # the save itself can fail, too
        useful += saves * interval_s
        restarting = restart_s
    return useful / now


def report(args):
    mtbf_s = 3600 * args.mtbf_hours
    interval_s = args.interval_s or best_interval(mtbf_s, args.restart_s, args.save_s)
    formula = closed_form(mtbf_s, args.restart_s, args.save_s, interval_s)
    runs = [simulate(args.nodes, mtbf_s, args.restart_s, args.save_s, interval_s, args.failures, args.seed + i)
            for i in range(args.runs)]
    mean = sum(runs) / len(runs)
    error = math.sqrt(sum((r - mean) ** 2 for r in runs) / max(len(runs) - 1, 1) / len(runs))
    print(f"{args.nodes} nodes, a failure every {args.mtbf_hours:g} h; a restart takes {args.restart_s:g} s, a save "
          f"stalls {args.save_s:g} s every {interval_s:.0f} s")
    print(f"simulated: {100 * mean:.2f} % +- {100 * error:.2f} ({args.runs} runs of {args.failures} failures)")
    verdict = "reached" if mean >= GOAL else "missed"
    print(f"closed form: {100 * formula:.2f} %; the goal of {100 * GOAL:g} % is {verdict}")
    return mean, formula


def print_table(args):
    mtbf_s = 3600 * args.mtbf_hours
    saves = [0.1, 0.3, 1, 3, 10, 60]
    print("| restart | " + " | ".join(f"a save stalls {s:g} s" for s in saves) + " |")
    print("|---" * (len(saves) + 1) + "|")
    for restart_s in (5, 10, 20, 30, 60, 120, 300):
        shares = [closed_form(mtbf_s, restart_s, s, best_interval(mtbf_s, restart_s, s)) for s in saves]
        cells = [f"{100 * share:.1f} %{' *' if share >= GOAL else ''}" for share in shares]
        print(f"| {restart_s} s | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--mtbf-hours", type=float, default=1, help="of the whole job")
    parser.add_argument("--restart-s", type=float, default=30)
    parser.add_argument("--save-s", type=float, default=1)
    parser.add_argument("--interval-s", type=float, help="of useful work between saves; the best one by default")
    parser.add_argument("--failures", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="the closed form for many costs; * reaches the goal")
    args = parser.parse_args()
    if min(args.nodes, args.mtbf_hours, args.save_s, args.failures, args.runs) <= 0 or args.restart_s < 0:
        parser.error("numbers must be positive")
    if args.table:
        print_table(args)
    else:
        report(args)


if __name__ == "__main__":
    main()
