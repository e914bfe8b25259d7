"""Runs `decode.py`, `decode_ctranslate2.py` if asked to, and `cargo bench --bench decode` in turn and prints the ratios of their speeds.

All decode the same inputs with the same weights; how many of their tokens are equal is printed, and greedy
float32 ones all have to be. All wait passively for their OpenMP threads, since the machine may be shared, and
flush denormals. Each round starts the processes afresh, in alternating order; the first decoding of a
process is left out.

Usage: python compare_decode.py --peer_python PYTHON --bench BINARY [--dtype bfloat16] [--beams 4] [--rounds 3] [--ctranslate2]
"""

import argparse
import os
import pathlib
import statistics
import tempfile

from compare_train_step import run


def equal_share(ours, theirs):
    pairs = [(a, b) for ours, theirs in zip(ours, theirs) for a, b in zip(ours, theirs)]
    return sum(a == b for a, b in pairs) / len(pairs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--bench", required=True, help="the binary that `cargo bench --no-run` names")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--decodes", type=int, default=4, help="decodings a process")
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--ctranslate2", action="store_true", help="also CTranslate2")
    args = parser.parse_args()

    script = lambda name: [args.peer_python, str(pathlib.Path(__file__).with_name(name))]
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "weights.safetensors")
        run([*script("decode.py"), f"--save={weights}"])
        options = [f"--dtype={args.dtype}", f"--rounds={args.decodes}", f"--beams={args.beams}"]
        peer_options = [*options, f"--methods={'greedy' if args.beams == 1 else 'beams'}"]
        commands = {
            "gimlet": [args.bench, *options, f"--weights={weights}"],
            "transformers": [*script("decode.py"), *peer_options, f"--attention={args.attention}"],
        }
        if args.ctranslate2:
            commands["ctranslate2"] = [*script("decode_ctranslate2.py"), *peer_options]
        seconds, cpu, peak, last = {}, {}, {}, {}
        for index in range(args.rounds):
            names = list(commands) if index % 2 == 0 else list(commands)[::-1]
            for name in names:
                records = run(commands[name])
                seconds.setdefault(name, []).extend(record["seconds"] for record in records[1:])
                cpu.setdefault(name, []).extend(record["cpu_seconds"] for record in records[1:])
                peak.setdefault(name, []).append(records[-1]["peak_rss_mb"])
                last[name] = records[-1]
    for name in commands:
        record = last[name]
        tokens = record["seconds"] * record["tokens_per_second"]
        print(f"{name:<14}{args.dtype}: median {tokens / statistics.median(seconds[name]):.0f} tokens/s, "
              f"best {tokens / min(seconds[name]):.0f}, cpu {statistics.median(cpu[name]):.2f} s, "
              f"peak {max(peak[name]):.0f} MB")
    for peer in list(commands)[1:]:
        share = equal_share(last["gimlet"]["sequences"], last[peer]["sequences"])
        ratio = lambda values, reduce: reduce(values[peer]) / reduce(values["gimlet"])
        print(f"speed of gimlet over {peer}: {ratio(seconds, statistics.median):.2f} (median), "
              f"{ratio(seconds, min):.2f} (best), {ratio(cpu, statistics.median):.2f} (cpu time); "
              f"equal tokens: {share:.1%}")
        assert share == 1 or args.dtype != "float32" or args.beams > 1, "greedy float32 tokens differ"


if __name__ == "__main__":
    main()
