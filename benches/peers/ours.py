"""`gimlet bench` of T5 1.1, as the scripts that compare it with peers call it."""

import pathlib

RUN = pathlib.Path(__file__).resolve().parent.parent / "t5_1_1.gin"


def command(program, bench, dtype, *, size="small", rows=8, inputs=512, targets=114, steps=10, warmup=3, bindings=()):
    """Words of the command, which prints one JSON object. `program` is `gimlet` or `gimlet-torch`."""
    model = "runs/quickstart/model.gin" if size == "quickstart" else f"t5x/examples/t5/t5_1_1/{size}.gin"
    return [
        str(program), "bench", bench, "--json", f"--steps={steps}", f"--warmup={warmup}",
        f"--gin_file={model}", f"--gin_file={RUN}",
        f"--gin.network.T5Config.dtype='{dtype}'", f"--gin.BATCH_SIZE={rows}",
        f"--gin.TASK_FEATURE_LENGTHS={{'inputs': {inputs}, 'targets': {targets}}}",
        *[f"--gin.{binding}" for binding in bindings],
    ]
