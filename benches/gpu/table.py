"""What `gpu_check.py` has found, as JSON and as Markdown."""

import dataclasses
import json

from gpu.parts import METHODS, ROWS


def write(found, about, folder):
    """Writes both; called after each part, so that what was found stays if the rest is cut off."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {**about, **dataclasses.asdict(found)}
    (folder / "gpu_check.json").write_text(json.dumps(record, indent=1))
    (folder / "gpu_check.md").write_text(markdown(found, about))


def markdown(found, about):
    lines = [f"# {found.machine or 'No device'}, {about['gimlet']}, {about['date']}", ""]
    if about["rehearsal"]:
        lines += ["A rehearsal: no figure means anything.", ""]
    lines += section("Checks", found.checks, {
        "check": lambda row: row["name"],
        "": lambda row: "ok" if row["passed"] else "**FAILED**",
        "detail": lambda row: row["detail"],
    })
    lines += section("Training step", sorted(found.train, key=by_size), {
        "size, rows": lambda row: f"{row['size']}, {row['rows']}",
        "implementation": lambda row: row["implementation"],
        "a step": lambda row: milliseconds(row["seconds"]),
        "sequences/s": lambda row: number(row["sequences_per_second"]),
        "of the peak": lambda row: percent(row["utilization"]),
        "memory, GB": lambda row: gigabytes(row.get("memory")),
        "first loss": lambda row: number(row.get("first_loss"), 4),
        "Gimlet's speed over it": lambda row: ratio(row),
    })
    lines += section("The right batch", sorted(found.batches, key=by_size), {
        "size, rows": lambda row: f"{row['size']}, {row['rows']}",
        "": lambda row: ", ".join(word for word, key in [("as above", "is_usual"), ("**best**", "is_best")] if row[key]),
        "a step": lambda row: milliseconds(row["seconds"]),
        "sequences/s": lambda row: number(row["sequences_per_second"]),
        "of the peak": lambda row: percent(row["utilization"]),
        "memory, GB": lambda row: gigabytes(row["memory"]),
    })
    lines += section("Decoding", sorted(found.decode, key=by_size), {
        "size, rows": lambda row: f"{row['size']}, {row['rows']}",
        "method": lambda row: row["method"],
        "implementation": lambda row: row["implementation"],
        "a batch": lambda row: milliseconds(row["seconds"]),
        "tokens/s": lambda row: number(row["tokens_per_second"]),
        "Gimlet's speed over it": lambda row: ratio(row),
    })
    lines += section("Left out", found.left_out, {
        "what": lambda row: row["name"],
        "why": lambda row: row["reason"].replace("|", "/"),
    })
    return "\n".join(lines)


def by_size(row):
    """Implementations of the same thing beside each other, in the order in which they were measured."""
    return list(ROWS).index(row["size"]), list(METHODS).index(row.get("method", "greedy"))


def section(title, rows, columns):
    if not rows:
        return []
    row_of = lambda cells: f"| {' | '.join(cells)} |"
    body = [row_of([column(row) for column in columns.values()]) for row in rows]
    return [f"## {title}", "", row_of(columns), row_of(["---"] * len(columns)), *body, ""]


def milliseconds(seconds):
    return f"{seconds * 1e3:,.1f} ms"


def number(value, digits=None):
    if value is None:
        return ""
    return f"{value:,.{digits if digits is not None else 0 if value >= 1000 else 1}f}"


def percent(share):
    return "" if share is None else f"{share:.1%}"


def gigabytes(count):
    return "" if count is None else f"{count / 1e9:.1f}"


def ratio(row):
    over = row["seconds_over_gimlet"]
    return "" if over is None or row["implementation"] == "gimlet" else f"**{over:.2f}**"
