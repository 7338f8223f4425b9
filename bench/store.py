#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast Hearth moves files to and from a store, next to rclone.

    .deps/oracle/bin/python bench/store.py [--mib 512] [--rounds 3] [--hearth build/release/bin/hearth]

A folder of two files goes up to `rclone serve s3` on this machine and down again, with `hearth copy` and with `rclone
copy`, in alternation. Hearth also reads every file back and compares it; rclone asks the server for the size.
"""
import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def seconds(command, env):
    start = time.monotonic()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hearth", default=f"{ROOT}/build/release/bin/hearth")
    given = parser.parse_args()
    rclone = os.path.join(os.path.dirname(sys.executable), "rclone")
    with tempfile.TemporaryDirectory() as work:
        os.makedirs(f"{work}/objects/bucket")
        os.makedirs(f"{work}/in")
        for name in ("a.bin", "b.bin"):
            with open(f"{work}/in/{name}", "wb") as file:
                for _ in range(given.mib // 2):
                    file.write(os.urandom(1 << 20))
        port = free_port()
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "secret"}
        env = dict(os.environ, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_EC2_METADATA_DISABLED="true",
                   RCLONE_CONFIG_STORE_TYPE="s3", RCLONE_CONFIG_STORE_PROVIDER="Rclone",
                   RCLONE_CONFIG_STORE_ENDPOINT=f"http://127.0.0.1:{port}",
                   RCLONE_CONFIG_STORE_ACCESS_KEY_ID="testing", RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY="secret", **keys)
        server = subprocess.Popen([rclone, "serve", "s3", "--config", "/dev/null", "--addr", f"127.0.0.1:{port}",
                                   "--auth-key", "testing,secret", f"{work}/objects"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
                time.sleep(0.05)
            print("MB/s      up: hearth  rclone   down: hearth  rclone")
            for turn in range(given.rounds):
                here, there = f"{work}/in", f"s3://bucket/h{turn}"
                times = [seconds([given.hearth, "copy", here, there], env),
                         seconds([rclone, "copy", here, f"store:bucket/r{turn}"], env),
                         seconds([given.hearth, "copy", there, f"{work}/h"], env),
                         seconds([rclone, "copy", f"store:bucket/r{turn}", f"{work}/r"], env)]
                rates = [given.mib * 1.048576 / t for t in times]
                print("round {}{:>15.0f}{:>8.0f}{:>15.0f}{:>8.0f}".format(turn + 1, *rates), flush=True)
                for name in ("h", "r", "objects/bucket/h%d" % turn, "objects/bucket/r%d" % turn):
                    shutil.rmtree(f"{work}/{name}")
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
