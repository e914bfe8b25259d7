"""`gimlet bench` of T5 1.1 and BERT, as the scripts that compare it with peers call it."""

import pathlib

BENCHES = pathlib.Path(__file__).resolve().parent.parent
RUN = BENCHES / "t5_1_1.gin"

# Layers of a BERT with the other dimensions of the base size.
BERT_LAYERS = {"bert_1_layer": 1, "bert_4_layers": 4, "bert_base": 12}


def words(program, bench, steps, warmup):
    return [str(program), "bench", bench, "--json", f"--steps={steps}", f"--warmup={warmup}"]


def command(program, bench, dtype, *, size="small", rows=8, inputs=512, targets=114, steps=10, warmup=3, bindings=()):
    """Words of the command, which prints one JSON object. `program` is `gimlet` or `gimlet-torch`."""
    if size.startswith("bert"):
        features = ["input_tokens", "token_types", "target_tokens", "loss_weights"]
        lengths = {**{f"encoder_{feature}": inputs for feature in features}, "next_sentence_label": 1}
        bindings = [*bindings, f"bert.BertConfig.num_hidden_layers={BERT_LAYERS[size]}",
                    f"bert.BertConfig.max_position_embeddings={inputs}"]
        return words(program, bench, steps, warmup) + [
            f"--gin_file={BENCHES / 'bert.gin'}", f"--gin.bert.BertConfig.dtype='{dtype}'", f"--gin.BATCH_SIZE={rows}",
            f"--gin.TASK_FEATURE_LENGTHS={lengths}", *[f"--gin.{binding}" for binding in bindings],
        ]
    model = "runs/quickstart/model.gin" if size == "quickstart" else f"t5x/examples/t5/t5_1_1/{size}.gin"
    return words(program, bench, steps, warmup) + [
        f"--gin_file={model}", f"--gin_file={RUN}",
        f"--gin.network.T5Config.dtype='{dtype}'", f"--gin.BATCH_SIZE={rows}",
        f"--gin.TASK_FEATURE_LENGTHS={{'inputs': {inputs}, 'targets': {targets}}}",
        *[f"--gin.{binding}" for binding in bindings],
    ]
