"""Trains T5 1.1 small with a checkpoint every 20 steps and without, in turn, and prints what the steps lose by it.

Time is that from the end of the first step to the end of the last, as the event files tell it: saving in the course
of a run is part of it, the one at the end of both runs is not. Where other programs use the machine, the CPU time of
the processes tells more: it holds what copying and writing cost, whoever waits for it. But it is that of whole runs:
with 41 steps and a period of 20 it counts three saves (at steps 0, 20 and 40; both runs save at 41), time only two
(at 20 and 40), so that the loss in CPU time is half as much again as that of the same steps.

Usage: python saving.py --gimlet BINARY --dir FOLDER [--rows 8] [--steps 41] [--period 20] [--rounds 3]
(from the root of the repository; `make build` makes BINARY, target/release/gimlet)
"""

import argparse
import os
import pathlib
import resource
import shutil
import statistics
import struct
import subprocess

ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "2"}


def command(args, folder, period):
    bindings = {
        "MODEL_DIR": f"'{folder}'", "BATCH_SIZE": args.rows, "TRAIN_STEPS": args.steps,
        "utils.SaveCheckpointConfig.period": period,
    }
    words = [f"--gin.{name}={value}" for name, value in bindings.items()]
    return [args.gimlet, "train", "--gin_file=benches/saving.gin", *words]


def records(file):
    """Wall time and bytes of each event: TFRecords, whose protocol buffers begin with the time as a double."""
    data = file.read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        event = data[at + 12 : at + 12 + length]
        yield struct.unpack_from("<d", event, 1)[0], event
        at += length + 16


def run(args, period):
    """Seconds between the first and the last step, and CPU seconds of the process."""
    folder = pathlib.Path(args.dir) / f"every_{period}"
    shutil.rmtree(folder, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command(args, folder, period), env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (file,) = (folder / "train").glob("events.*")
    times = [time for time, event in records(file) if b"timing/steps_per_second" in event]
    assert len(times) >= args.steps, f"{len(times)} steps of {args.steps}"
    shutil.rmtree(folder)
    return max(times) - min(times), cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--steps", type=int, default=41)
    parser.add_argument("--period", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    measured = {args.period: [], 0: []}
    for index in range(args.rounds):
        for period in list(measured)[:: 1 if index % 2 == 0 else -1]:
            seconds, cpu = run(args, period)
            measured[period].append((seconds, cpu))
            print(f"saved every {period or 'end'}: {seconds:.2f} s, cpu {cpu:.2f} s", flush=True)
    for column, name in enumerate(["seconds", "cpu seconds"]):
        of = lambda period, reduce: reduce(values[column] for values in measured[period])
        for reduce in (statistics.median, min):
            loss = of(args.period, reduce) / of(0, reduce) - 1
            print(f"lost by saving, {reduce.__name__} of {name}: {100 * loss:.2f}%")


if __name__ == "__main__":
    main()
