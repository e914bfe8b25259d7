"""The metrics of a run."""

import json
import pathlib


def read_metrics(model_dir):
    """The metrics in a run's folder, by their source: `train`, and `inference_eval/TASK` of each evaluation.

    Each is a list of dicts with `step` and the numbers of that step, such as `pandas.DataFrame` takes. A line that a run is
    writing, or was killed in, is left out.
    """
    folder = pathlib.Path(model_dir)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; expected the MODEL_DIR of a run on this machine")
    found = {}
    for file in sorted(folder.rglob("*metrics.jsonl")):
        rows = {}
        for line in file.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            rows.setdefault(row["step"], {}).update(row)
        name = file.relative_to(folder).as_posix().removesuffix("metrics.jsonl").rstrip("-/")
        found[name] = [rows[step] for step in sorted(rows)]
    if not found:
        raise FileNotFoundError(f"{folder} holds no train/metrics.jsonl and no TASK-metrics.jsonl: it is not the folder of a run")
    return found
