"""Runs the parts of `gpu_check.py`, each within its time, and collects what they find."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import time

from gpu.parts import COMPILED, CTRANSLATE2, EAGER, FP8, METHODS, WITHOUT

import many_devices
from ours import command

BENCHES = pathlib.Path(__file__).resolve().parent.parent
# Decodings of a peer; the first is left out.
ROUNDS = 3


@dataclasses.dataclass
class Found:
    """Everything that was found; `table.py` writes it."""

    machine: str = ""
    checks: list = dataclasses.field(default_factory=list)
    train: list = dataclasses.field(default_factory=list)
    batches: list = dataclasses.field(default_factory=list)
    decode: list = dataclasses.field(default_factory=list)
    breakdowns: list = dataclasses.field(default_factory=list)
    left_out: list = dataclasses.field(default_factory=list)


class Runner:
    def __init__(self, binaries, peer_python, scale, environment, seconds):
        self.binaries, self.scale = binaries, scale
        self.peer_python = peer_python
        self.environment = environment
        self.deadline = time.monotonic() + seconds
        self.part, self.part_deadline = None, None
        self.found = Found()

    def left(self):
        return self.deadline - time.monotonic()

    def run_part(self, part):
        """Never raises: other parts do not depend on this one."""
        self.part = part
        self.part_deadline = time.monotonic() + min(part.seconds, max(self.left(), 0))
        try:
            getattr(self, part.kind)(part)
        except Exception as error:
            self.leave_out(part.name, f"{type(error).__name__}: {error}")

    # Kinds of parts.

    def tests(self, part, tool=()):
        """Tests of a program: a line for each that failed, and how many passed."""
        program, *words = part.words
        if not (self.binaries / program).exists():
            return self.leave_out(part.name, f"there is no program `{program}`")
        # For tests that were built elsewhere.
        more = {"CARGO_MANIFEST_DIR": str(BENCHES.parent), "GIMLET_PROGRAMS": str(self.binaries), "GIMLET_BACKEND": "gloo"}
        done = self.run([*tool, self.binaries / program, *words], more)
        lines = done.stdout.splitlines()
        passed = sum(line.startswith("test ") and line.endswith("... ok") for line in lines)
        failed = [line.split()[1] for line in lines if line.startswith("test ") and line.endswith("FAILED")]
        for line in lines:
            if "panicked" in line or "relative error" in line:
                print(f"{part.name}: {line}", flush=True)
        if done.returncode:
            print(done.stderr[-2000:], flush=True)
        late = ["out of time"] if done.returncode is None else []
        self.check(part.name, done.returncode == 0, ", ".join([f"{passed} tests pass", *failed, *late]))

    def sanitize(self, part):
        """The same under NVIDIA's checker of memory accesses, where it is installed."""
        tool = shutil.which("compute-sanitizer")
        if tool is None:
            return self.leave_out(part.name, "compute-sanitizer is not installed")
        self.tests(part, [tool, "--error-exitcode=1"])

    def train(self, part):
        """Our training step, and others'."""
        scale, rows = self.scale, self.scale.rows[part.size]
        commands = {"gimlet": self.ours("train_step", part.size, rows)}
        for name in part.beside:
            if name in WITHOUT:
                commands[name] = [*commands["gimlet"], WITHOUT[name]]
        if "gimlet fp8" in part.beside:
            commands["gimlet fp8"] = self.ours("train_step", part.size, rows, bindings=FP8)
        options = [f"--batch_size={rows}", f"--steps={scale.warm_up + scale.steps}", f"--inputs_length={scale.inputs}",
                   f"--targets_length={scale.targets}", f"--dtype={scale.dtype}"]
        commands.update(self.peers(part, {EAGER: ("train_step.py", options), COMPILED: ("train_step.py", [*options, "--compile"])}))
        rate = rows, rows * (scale.inputs + scale.targets)
        self.measure(self.found.train, {"size": part.size, "rows": rows}, commands, rate, scale.warm_up)

    def find_batch(self, part):
        """Our training step with ever more rows."""
        words = self.ours("train_step", part.size, self.scale.rows[part.size]) + [self.scale.find_batch]
        record = self.records(part.name, words)[-1]
        print(f"{part.name}: ended {record['ended']}", flush=True)
        for size in record["sizes"]:
            is_best = size["rows"] == record["best"]["rows"]
            self.add(self.found.batches, {
                "size": part.size, "rows": size["rows"], **ours_figures(size), "is_usual": size is record["sizes"][0],
                "is_best": is_best})

    def decode(self, part):
        """Our decoding by each method, and others'."""
        scale = self.scale
        rows, tokens = scale.decoded_rows, scale.decoded_tokens
        options = [f"--batch_size={rows}", f"--tokens={tokens}", f"--inputs_length={scale.inputs}", f"--rounds={ROUNDS}",
                   f"--methods={','.join(METHODS)}"]
        dtype, theirs = f"--dtype={scale.dtype}", f"--dtype={scale.dtype_of_ctranslate2}"
        peers = self.peers(part, {
            EAGER: ("decode.py", [*options, dtype]),
            COMPILED: ("decode.py", [*options, dtype, "--compile"]),
            CTRANSLATE2: ("decode_ctranslate2.py", [*options, theirs]),
        })
        for method, bindings in METHODS.items():
            ours = self.ours("decode", part.size, rows, targets=tokens, steps=min(5, scale.steps), bindings=bindings)
            about = {"size": part.size, "method": method, "rows": rows}
            self.measure(self.found.decode, about, {"gimlet": ours}, (rows, rows * tokens), 1)
        for name, words in peers.items():
            try:
                records = self.records(f"{part.name}, {name}", words)
            except LeftOut as reason:
                self.leave_out(f"{part.name}, {name}", reason)
                records = reason.records
            for method in METHODS:
                seconds = [record["seconds"] for record in records if record["method"] == method][1:]
                if seconds:
                    about = {"size": part.size, "method": method, "rows": rows}
                    self.add_row(self.found.decode, about, name, seconds, (rows, rows * tokens), {})

    def processes(self, part):
        """Two processes that share the device, and one with a group of its own."""
        devices = many_devices.Devices(self.binaries / "gimlet", 2, self.scale.device, shared=True, run=self.run)
        for name, passed, detail in devices.equality(many_devices.SHARED):
            self.check(f"two processes, {name}", passed, detail)

    # Measuring.

    def ours(self, bench, size, rows, **more):
        shape = {"inputs": self.scale.inputs, "targets": self.scale.targets, "steps": self.scale.steps, **more}
        size = self.scale.size or size
        return command(self.binaries / "gimlet", bench, self.scale.dtype, size=size, rows=rows, warmup=self.scale.warm_up, **shape)

    def peers(self, part, scripts):
        """The commands of those peers that the part names; none without their Python."""
        if not self.peer_python:
            return {}
        where = [f"--size={self.scale.size or part.size}", f"--device={self.scale.device}"]
        return {name: [*self.peer_python, BENCHES / "peers" / script, *where, *options]
                for name, (script, options) in scripts.items() if name in part.beside}

    def measure(self, rows, about, commands, rate, warm_up):
        """Runs each command, and adds a row for it."""
        for name, words in commands.items():
            if any(row["implementation"] == name and about.items() <= row.items() for row in rows):
                continue  # An earlier part has measured it.
            what = f"{self.part.name}, {name}"
            try:
                records = self.records(what, words)
            except LeftOut as reason:
                self.leave_out(what, reason)
                continue
            last = records[-1]
            self.found.machine = last.get("device", self.found.machine) if "step_seconds" in last else self.found.machine
            seconds = last.get("step_seconds") or [record["seconds"] for record in records[warm_up:]]
            more = ours_figures(last) if "step_seconds" in last else {"memory": megabytes(last.get("peak_device_mb"))}
            more["first_loss"] = last["losses"][0] if "losses" in last else records[0].get("loss")
            self.add_row(rows, about, name, seconds, rate, more)
            if "breakdown" in last:
                self.break_down(what, last["breakdown"])

    def add_row(self, rows, about, name, seconds, rate, more):
        median = statistics.median(seconds)
        ours = [row for row in rows if row["implementation"] == "gimlet" and about.items() <= row.items()]
        over = median / ours[0]["seconds"] if ours else None
        # Of what the device could compute, as Gimlet knows it; peers compute the same model.
        figures = more if "peak_flops" in more else ours[0] if ours else {}
        flops, peak = figures.get("model_flops"), figures.get("peak_flops")
        sequences, tokens = rate
        self.add(rows, {
            **about, "implementation": name, "seconds": median, "sequences_per_second": sequences / median,
            "tokens_per_second": tokens / median, **more, "utilization": flops / median / peak if flops and peak else None,
            "seconds_over_gimlet": over})

    def break_down(self, what, breakdown):
        self.found.breakdowns.append({"part": what, **breakdown})
        shares = ", ".join(f"{part} {share:.1%}" for part, share in breakdown["shares"].items())
        print(f"{what}, of the {breakdown['timeline']}'s {breakdown['seconds'] * 1e3:.1f} ms a step: {shares}")
        for one in breakdown["longest"]:
            print(f"    {one['seconds'] * 1e3:8.2f} ms in {one['runs']:.0f} runs of {one['name'][:100]}", flush=True)

    def records(self, what, words):
        """The JSON lines of a command that succeeds."""
        done = self.run(words)
        for line in done.stderr.splitlines():
            if line.startswith("warning:"):
                print(f"{what}: {line}", flush=True)
        records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode is None:
            raise LeftOut("out of time", records)
        if done.returncode or not records:
            raise LeftOut(" ".join(done.stderr.split())[-300:] or f"exit status {done.returncode}", records)
        return records

    def run(self, words, more=()):
        """The process at its end; its status is None if there was no time, and its children have then ended with it."""
        left = min(self.deadline, self.part_deadline) - time.monotonic()
        if left <= 0:
            return subprocess.CompletedProcess(words, None, "", "")
        environment = {**os.environ, **self.environment, **dict(more)}
        process = subprocess.Popen([str(word) for word in words], cwd=BENCHES.parent, env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return subprocess.CompletedProcess(words, None, *process.communicate())
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    # Telling.

    def add(self, rows, row):
        rows.append(row)
        print(json.dumps({"part": self.part.name, **row}), flush=True)

    def check(self, name, passed, detail):
        self.found.checks.append({"name": name, "passed": passed, "detail": detail})
        print(f"{name}: {'ok' if passed else 'FAILED'}, {detail}", flush=True)

    def leave_out(self, name, reason):
        self.found.left_out.append({"name": name, "reason": str(reason)})
        print(f"{name}: left out, {reason}", flush=True)


class LeftOut(Exception):
    """Why something was not measured, with what was said before."""

    def __init__(self, reason, records=()):
        super().__init__(reason)
        self.records = records


def megabytes(number):
    return number and number * 2**20


def ours_figures(record):
    """What `gimlet bench` says beside times."""
    names = {"sequences_per_second": "sequences_per_second", "utilization": "utilization", "memory": "peak_memory_bytes",
             "model_flops": "model_flops", "peak_flops": "peak_flops", "seconds": "median_seconds"}
    return {name: record.get(theirs) for name, theirs in names.items()}
