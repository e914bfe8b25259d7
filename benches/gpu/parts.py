"""The parts of `gpu_check.py` in the order in which they run: data. `runner.py` runs them.

The first minutes give the most: whether numbers are right, then the large sizes beside peers, then the rest. What torch
compiles takes a minute a command, and so comes late.
"""

from dataclasses import dataclass, field

TRAIN, FIND, DECODE, TESTS, SANITIZE, PROCESSES = "train", "find_batch", "decode", "tests", "sanitize", "processes"
EAGER, COMPILED, CTRANSLATE2 = "transformers", "transformers compiled", "ctranslate2"
# Gimlet without a means of speed, and the flags of `gimlet bench train_step` for it.
WITHOUT = {f"gimlet without {means}": f"--without={means}" for means in ["cudnn", "graphs", "copies", "head"]}
NO_CUDNN, NO_GRAPHS, NO_COPIES, NO_HEAD = WITHOUT


@dataclass(frozen=True)
class Part:
    name: str
    kind: str
    # Its time; a command that is still running then is ended.
    seconds: int
    size: str = ""
    # Implementations beside `gimlet`.
    beside: tuple = ()
    # A program of tests and the words after it.
    words: tuple = ()


PARTS = [
    Part("kernels", TESTS, 120, words=("gpu", "--skip", "processes::", "--test-threads=1")),
    Part("T5X's runs", TESTS, 100, words=("e2e", "t5x::", "--skip", "divided", "--test-threads=4")),
    Part("train large", TRAIN, 125, "large", (NO_CUDNN, NO_GRAPHS, NO_COPIES, EAGER)),
    Part("train xl", TRAIN, 110, "xl", ("gimlet fp8", NO_COPIES, EAGER)),
    Part("batch of large", FIND, 60, "large"),
    Part("decode large", DECODE, 150, "large", (EAGER, CTRANSLATE2)),
    Part("operations of processes", TESTS, 40, words=("gpu", "processes::", "--test-threads=1")),
    Part("two processes", PROCESSES, 70),
    Part("train small", TRAIN, 90, "small", (NO_CUDNN, NO_GRAPHS, NO_HEAD, EAGER)),
    Part("train base", TRAIN, 60, "base", (EAGER,)),
    Part("decode small", DECODE, 80, "small", (EAGER, CTRANSLATE2)),
    Part("decode xl", DECODE, 160, "xl", (EAGER, CTRANSLATE2)),
    Part("batch of xl", FIND, 60, "xl"),
    Part("train small, compiled", TRAIN, 120, "small", (COMPILED,)),
    Part("decode small, compiled", DECODE, 150, "small", (COMPILED,)),
    Part("train large, compiled", TRAIN, 240, "large", (COMPILED,)),
    Part("decode large, compiled", DECODE, 240, "large", (COMPILED,)),
    Part("batch of small", FIND, 60, "small"),
    Part("batch of base", FIND, 60, "base"),
    Part("T5X's divided runs", TESTS, 120, words=("e2e", "t5x::a_divided", "--test-threads=1")),
    Part("kernels under compute-sanitizer", SANITIZE, 200,
         # Those that call every kernel in small shapes.
         words=("gpu", "--test-threads=1", "operations::", "optimizer::", "attention::")),
]

# Rows of a training step of each size: as many as fit into 80 GB.
ROWS = {"small": 128, "base": 64, "large": 32, "xl": 8}


@dataclass(frozen=True)
class Scale:
    """What is measured of each size, and where."""

    device: str = "cuda"
    dtype: str = "bfloat16"
    # That of CTranslate2, whose fast kernels are float16's.
    dtype_of_ctranslate2: str = "float16"
    rows: dict = field(default_factory=lambda: ROWS)
    inputs: int = 512
    targets: int = 114
    decoded_rows: int = 64
    decoded_tokens: int = 128
    steps: int = 10
    warm_up: int = 3
    # A flag of `gimlet bench train_step`.
    find_batch: str = "--find_batch"
    # Another size in the place of all.
    size: str = ""


H200 = Scale()
# The whole script on a CPU in a minute, as a test of it; its figures mean nothing.
REHEARSAL = Scale(
    device="cpu", dtype="float32", dtype_of_ctranslate2="float32",
    rows=dict.fromkeys(ROWS, 4), inputs=32, targets=16, decoded_rows=4, decoded_tokens=8,
    steps=2, warm_up=1, find_batch="--find_batch=8", size="quickstart")

FP8 = ["train.te_config_cls=@te_helper.TransformerEngineConfig", "te_helper.TransformerEngineConfig.enable_fp8=True"]

# Gimlet's bindings of each way to decode; `benches/t5_1_1.gin` is greedy.
METHODS = {
    "greedy": [],
    "beams": ["models.EncoderDecoderModel.decode_fn=@decoding.beam_search",
              "models.EncoderDecoderModel.predict_batch_with_aux.num_decodes=4"],
    "sampling": ["decoding.temperature_sample.temperature=1.0", "decoding.temperature_sample.topk=0"],
}
