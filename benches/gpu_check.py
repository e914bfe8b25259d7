#!/usr/bin/env python3
"""What a machine with an NVIDIA GPU tells in under eight minutes: whether our numbers are right there, and how fast
training and decoding are, beside peers.

    benches/gpu_check.py                            builds, then runs everything
    benches/gpu_check.py --build_only               builds target/cuda/gpu_check.tar.xz, to be carried to another machine
    benches/gpu_check.py --binaries FILE            runs what was carried: no compiler, no network
    benches/gpu_check.py --peer_python PYTHON       also runs transformers, and CTranslate2 if it is there
    benches/gpu_check.py --only decode --only two   parts with these words in their names
    benches/gpu_check.py --gpus N                   runs many_devices.py on N GPUs
    benches/gpu_check.py --rehearsal --binaries DIR
                                                    the whole script on a CPU, as a test of it: those of a development build

The parts are in gpu/parts.py. Prints a line for each check and a JSON line for each measurement, says after each part
what remains, and writes gpu_check.json and gpu_check.md into --out after each. What does not fit into the time is left out
and said so. Exits with 1 if a check failed.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

BENCHES = pathlib.Path(__file__).resolve().parent
ROOT = BENCHES.parent
sys.path[:0] = [str(BENCHES), str(BENCHES / "peers")]

import many_devices
from gpu import table
from gpu.parts import H200, PARTS, REHEARSAL
from gpu.runner import Runner

# What is carried, and the names under which cargo builds it. The example runs every command in itself, as a `gimlet` and a
# `gimlet-torch` would together.
PROGRAMS = {"gimlet": "my_gimlet", "gpu": "gpu", "e2e": "e2e"}
LIBTORCH = ROOT / ".libtorch-cuda/torch"
# What can be carried at once.
MOST_MEGABYTES = 60
# Finds torch without importing it.
WHERE_IS_TORCH = "import importlib.util as util; print(util.find_spec('torch').submodule_search_locations[0])"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, help=f"folder or archive of the programs {', '.join(PROGRAMS)}")
    parser.add_argument("--build_only", action="store_true", help="build the archive and stop")
    parser.add_argument("--peer_python", help="a Python with torch 2.11.0, transformers 5.23.0 and ctranslate2 4.8.5")
    parser.add_argument("--gpus", type=int, help="check this number of GPUs together instead: many_devices.py")
    parser.add_argument("--seconds", type=float, default=450, help="time for all of it, building left out")
    parser.add_argument("--only", action="append", default=[], help="a word in the names of parts")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/cuda/gpu_check/results")
    parser.add_argument("--rehearsal", action="store_true", help="a tiny size on a CPU; stand-ins without --peer_python")
    args = parser.parse_args()

    binaries = args.binaries or ROOT / "target/cuda/gpu_check"
    if not args.binaries:
        build(binaries)
    if args.build_only:
        sys.exit(pack(binaries))
    with tempfile.TemporaryDirectory() as folder:
        if binaries.is_file():
            with tarfile.open(binaries) as archive:
                archive.extractall(folder, filter="data")
            binaries = pathlib.Path(folder)
        environment = {} if args.rehearsal else libtorch_environment(args.peer_python)
        if args.gpus:
            os.environ.update(environment)
            sys.exit(many_devices.check(binaries, args.gpus, "cpu" if args.rehearsal else "cuda"))
        sys.exit(run(args, binaries.resolve(), environment))


def run(args, binaries, environment):
    """Runs the parts; returns whether a check failed."""
    stand_in = [sys.executable, BENCHES / "gpu/stand_in.py"] if args.rehearsal else []
    peer_python = [args.peer_python] if args.peer_python else stand_in
    scale = REHEARSAL if args.rehearsal else H200
    runner = Runner(binaries, peer_python, scale, environment, args.seconds)
    about = {"gimlet": version(binaries / "gimlet", environment), "date": datetime.date.today().isoformat(), "rehearsal": args.rehearsal}
    parts = [part for part in PARTS if not args.only or any(word in part.name for word in args.only)]
    for index, part in enumerate(parts):
        before = runner.left()
        if before <= 0:
            runner.leave_out(part.name, "out of time")
        else:
            runner.run_part(part)
            after = ", ".join(part.name for part in parts[index + 1:]) or "nothing"
            print(f"-- {part.name}: {before - runner.left():.0f} s, {runner.left():.0f} s left for {after}", flush=True)
        table.write(runner.found, about, args.out)
    print(f"results: {args.out / 'gpu_check.md'}", flush=True)
    return int(any(not check["passed"] for check in runner.found.checks))


def version(gimlet, environment):
    """The first line says the commit."""
    done = subprocess.run([gimlet, "--version"], env={**os.environ, **environment}, capture_output=True, text=True)
    return done.stdout.partition("\n")[0]


def libtorch_environment(python):
    """The variables with which programs find libtorch: that of `make cuda`, or that of a Python."""
    libtorch = LIBTORCH
    if not libtorch.exists():
        found = subprocess.run([python or "python3", "-c", WHERE_IS_TORCH], capture_output=True, text=True, check=True)
        libtorch = pathlib.Path(found.stdout.strip())
    folders = [libtorch / "lib", libtorch.parent / "nvidia/cu13/lib", os.environ.get("LD_LIBRARY_PATH", "")]
    return {"LIBTORCH": str(libtorch), "LD_LIBRARY_PATH": ":".join(map(str, folders)).strip(":")}


def build(folder):
    """Builds the tests, and with them the programs that they run."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"LIBTORCH": str(LIBTORCH), **os.environ}
    words = ["cargo", "test", "--no-run", "--release", "--features", "cuda", "--target-dir", "target/cuda",
             "--test", "gpu", "--test", "e2e", "--message-format=json"]
    done = subprocess.run(words, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    built = {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}
    for name, target in PROGRAMS.items():
        shutil.copy2(built[target], folder / name)


def pack(folder):
    """Packs the programs for another machine; returns whether they are too large."""
    archive = folder.with_suffix(".tar.xz")
    with tarfile.open(archive, "w:xz") as packed:
        for name in PROGRAMS:
            packed.add(folder / name, name)
    megabytes = archive.stat().st_size / 1e6
    print(f"{archive}: {megabytes:.1f} MB")
    return int(megabytes > MOST_MEGABYTES)


if __name__ == "__main__":
    main()
