"""What the comparisons of loss curves share: a text, a run with its costs, and a picture."""

import ast
import os
import pathlib
import re
import subprocess
import sysconfig
import time

COLOURS = {"transformers": "#d95f02", "Gimlet": "#1b9e77"}


def texts(*folders):
    """Lists of words, one for each docstring of the Python files in folders, by default those of the standard library."""
    files = [sorted(pathlib.Path(folder).rglob("*.py")) for folder in folders]
    for path in sum(files, []) or sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                words = re.findall(r"\w+|[^\w\s]", (ast.get_docstring(node) or "").lower())
                if len(words) > 40:
                    yield words


def measured(words, folder):
    """Runs a command on two cores; returns its wall time and CPU time in seconds, and its largest memory in MiB."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    begin = time.perf_counter()
    process = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def compare(theirs, ours, costs, last):
    """Prints losses of some steps, the mean of the last ones, and what each training has cost."""
    assert len(ours) == len(theirs), (len(ours), len(theirs))
    print("| step | transformers | Gimlet |\n|---|---|---|")
    for step in [1, *(len(theirs) * part // 8 for part in range(1, 9))]:
        print(f"| {step} | {theirs[step - 1]:.4f} | {ours[step - 1]:.4f} |")
    means = [sum(losses[-last:]) / last for losses in (theirs, ours)]
    print(f"mean of the last {last}: {means[0]:.4f} and {means[1]:.4f}, {means[1] / means[0] - 1:+.4%}")
    for name, (wall, cpu, memory) in costs.items():
        print(f"{name}: {wall:.0f} s, {cpu:.0f} s of CPU time, {memory:.0f} MiB")


def drawn(curves, steps):
    """An image of losses over the steps; the first curve is a broad line, so that the second is seen on it."""
    width, height, most = 640, 320, max(max(losses) for losses in curves.values())
    lines = []
    for at, (name, losses) in enumerate(curves.items()):
        places = " ".join(f"{40 + 580 * step / (len(losses) - 1):.1f},{290 - 270 * loss / most:.1f}"
                          for step, loss in enumerate(losses))
        style = f'stroke="{COLOURS[name]}" stroke-width="{3 - 2 * at}"'
        lines.append(f'<polyline fill="none" {style} points="{places}"/>')
        lines.append(f'<text x="520" y="{40 + 20 * at}" fill="{COLOURS[name]}">{name}</text>')
    axes = [f'<text x="4" y="{294 - 270 * loss / most:.0f}">{loss}</text>' for loss in range(0, int(most) + 1, 2)]
    axes += [f'<text x="{30 + 580 * part / 4:.0f}" y="312">{steps * part // 4}</text>' for part in range(5)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="13"><rect width="{width}" height="{height}" fill="white"/>' + "".join(lines + axes) + "</svg>\n")
