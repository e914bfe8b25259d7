"""CTranslate2's decoding of the T5 1.1 of `decode.py`, as a peer of `gimlet bench decode`.

The random model is converted by CTranslate2's own loader of transformers' T5s, with a vocabulary of made-up names, since
no tokenizer belongs to it. Prints the lines of `decode.py`. No sequence ends before its last token: the least length is
the greatest one.

Needs ctranslate2 4.8.5 beside what `decode.py` needs, and on a GPU cuBLAS 12; if there is cuBLAS 13 alone, that
one is offered under the other's name.
"""

import contextlib
import ctypes
import os
import pathlib
import sys
import tempfile

import ctranslate2
from ctranslate2.converters.transformers import T5Loader

from decode import arguments, measure, model_and_inputs

CUBLAS = ["libcublas.so", "libcublasLt.so"]


def offer_cublas():
    """Starts this script again with cuBLAS 13 under the name for which CTranslate2 asks, unless there is that one."""
    with contextlib.suppress(OSError):
        return ctypes.CDLL(f"{CUBLAS[0]}.12")
    folders = [pathlib.Path(folder, "nvidia/cu13/lib") for folder in sys.path]
    found = [folder for folder in folders if (folder / f"{CUBLAS[0]}.13").exists()]
    if not found:
        return None
    links = pathlib.Path(tempfile.mkdtemp())
    for name in CUBLAS:
        (links / f"{name}.12").symlink_to(found[0] / f"{name}.13")
    path = [os.environ.get("LD_LIBRARY_PATH"), str(links), str(found[0])]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, path))
    os.execv(sys.executable, [sys.executable, *sys.argv])


class Names:
    """The tokenizer of the loader, of which it asks names only."""

    pad_token, eos_token, unk_token = "<pad>", "</s>", "<unk>"

    def __init__(self, size):
        self.names = [self.pad_token, self.eos_token, self.unk_token, *map(str, range(3, size))]

    def convert_ids_to_tokens(self, index):
        return self.names[index]


def convert(model, folder, dtype):
    names = Names(model.config.vocab_size)
    loader = T5Loader()
    spec = loader.get_model_spec(model)
    loader.set_vocabulary(spec, names.names)
    loader.set_config(spec.config, model, names)
    spec.validate()
    spec.optimize(quantization=dtype)
    spec.save(folder)
    return names


def main():
    parser = arguments(__doc__)
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32")
    args = parser.parse_args()
    if args.device == "cuda":
        offer_cublas()

    model, inputs = model_and_inputs(args)
    with tempfile.TemporaryDirectory() as folder:
        names = convert(model.cpu(), folder, args.dtype)
        # `intra_threads` counts for CPUs.
        translator = ctranslate2.Translator(
            folder, device=args.device, compute_type=args.dtype, intra_threads=args.threads)
    del model
    rows = [[names.names[index] for index in row] for row in inputs.tolist()]
    ids = {name: index for index, name in enumerate(names.names)}
    methods = {
        "greedy": dict(beam_size=1),
        "beams": dict(beam_size=args.beams),
        "sampling": dict(beam_size=1, sampling_topk=0, sampling_temperature=1.0),
    }

    def decode(method):
        found = translator.translate_batch(
            rows, max_batch_size=len(rows), min_decoding_length=args.tokens, max_decoding_length=args.tokens,
            max_input_length=0, **methods[method])
        return [[ids[name] for name in row.hypotheses[0]] for row in found]

    measure({"implementation": "ctranslate2", "dtype": args.dtype}, args, decode)


if __name__ == "__main__":
    main()
