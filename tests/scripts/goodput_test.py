#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/goodput.py: its simulation against the closed form, and the closed form against what is known without it.

Registered in CTest as scripts.goodput.
"""

import math
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

import goodput  # noqa: E402


class Goodput(unittest.TestCase):
    def test_the_simulation_agrees_with_daly(self):
        for mtbf_s, restart_s, save_s, interval_s in ((3600, 30, 1, 85), (3600, 300, 60, 600), (40, 5, 0.1, 2),
                                                      (40, 60, 1, 30), (7200, 0, 10, 100)):
            runs = [goodput.simulate(64, mtbf_s, restart_s, save_s, interval_s, 500, seed) for seed in range(20)]
            mean = sum(runs) / len(runs)
            error = math.sqrt(sum((r - mean) ** 2 for r in runs) / (len(runs) - 1) / len(runs))
            expected = goodput.closed_form(mtbf_s, restart_s, save_s, interval_s)
            self.assertLess(abs(mean - expected), 4 * error, (mtbf_s, restart_s, save_s, interval_s, mean, expected))

    def test_without_failures_only_saves_cost(self):
        self.assertAlmostEqual(goodput.closed_form(1e12, 100, 5, 95), 0.95, places=6)

    def test_rare_failures_cost_a_restart_and_half_an_interval_each(self):
        lost = 1 - goodput.closed_form(1e6, 100, 1, 1000)
        self.assertAlmostEqual(lost, 1 / 1001 + (100 + 500) / 1e6, places=5)

    def test_the_best_interval_is_youngs_where_saves_are_cheap(self):
        self.assertLess(abs(goodput.best_interval(1e6, 30, 1) / goodput.first_order_interval(1e6, 1) - 1), 0.01)
        best = goodput.best_interval(3600, 30, 10)
        for other in (0.9 * best, 1.1 * best):
            self.assertLess(goodput.closed_form(3600, 30, 10, other), goodput.closed_form(3600, 30, 10, best))

    def test_each_start_may_cost_a_second_more_than_predicted(self):
        self.assertAlmostEqual(goodput.least_goodput(70, 100, 0), 0.7)
        self.assertAlmostEqual(goodput.least_goodput(70, 90, 10), 0.7)

    def test_a_seed_gives_the_same_run_and_another_seed_another(self):
        values = [goodput.simulate(512, 3600, 30, 1, 85, 50, seed) for seed in (1, 1, 2)]
        self.assertEqual(values[0], values[1])
        self.assertNotEqual(values[0], values[2])

    def test_the_command_says_whether_the_goal_is_reached(self):
        def run(*words):
            return subprocess.run([sys.executable, os.path.join(ROOT, "bench", "goodput.py"), *words],
                                  capture_output=True, text=True, check=False)

        self.assertIn("the goal of 97 % is missed", run("--restart-s", "300").stdout)
        self.assertIn("the goal of 97 % is reached", run("--restart-s", "10", "--save-s", "0.1").stdout)
        self.assertEqual(run("--save-s", "-1").returncode, 2)


if __name__ == "__main__":
    unittest.main()
