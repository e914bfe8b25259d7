"""Writes hugging_face.json: folders of tokenizers with sentencepiece.model's pieces, and the ids and texts of transformers.

The pieces and the charsmap are not repeated there: `"vocab": N` stands for the pieces and N sentinels, and
`"precompiled_charsmap": true` for the model's own. Made with transformers 5.24.0, sentencepiece 0.2.3, Python 3.11:
    python tests/pipeline/data/reference/hugging_face.py
"""

import copy
import json
import os
import random
import shutil
import tempfile

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from transformers import AddedToken, AutoTokenizer, ByT5Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "sentencepiece.model")
SENTINELS = 4
ADDED = [
    AddedToken("<sep>", special=True, normalized=False),
    AddedToken("<keep>", lstrip=True),
    AddedToken("<wide>", lstrip=True, rstrip=True, special=True),
    AddedToken("WORD", single_word=True),
    AddedToken("ﬁne", normalized=True),
    AddedToken("two words", normalized=False),
]
WORDS = ["bacelon", "di", "șață", "fogu", "merha", "日本語", "xyz", "q", "."]
ODD = ["  ", "\t", "\u00a0", "\u3000", "e\u0301", "E\u0301", "ﬁ", "Ａ１", "½", "🤗", "👩‍👩‍👧", "한국어", "क्ष", "▁", "\r\n",
       "\u0301", "<extra_id_0>", "<extra_id_3>", "<extra_id_9>", "</s>", "<unk>", "<pad>", "<sep>", " <sep> ", "a<keep>b",
       " <keep> ", "  <wide>  ", "WORD", "WORDS", "aWORD", " WORD ", "fine", "ﬁne", "two words", "twowords", "<0x41>"]


def lines():
  rng = random.Random(5)
  yield from ["", " ", "di", " di ", "▁▁di", "bacelon <sep> di", "<sep>di", "di<sep>", "<extra_id_0> di <extra_id_1>"]
  for _ in range(60):
    yield "".join(rng.choice([rng.choice(ODD), " ", rng.choice(WORDS), " " + rng.choice(WORDS), rng.choice(WORDS) + " "])
                  for _ in range(rng.randint(1, 12)))


def write(folder, files):
  os.makedirs(folder, exist_ok=True)
  for name, content in files.items():
    with open(os.path.join(folder, name), "w") as file:
      json.dump(content, file)


def loaded(folder):
  with open(os.path.join(folder, "tokenizer.json")) as file:
    return json.load(file)


def as_version_4(saved):
  """What transformers 4.57 writes for the same model."""
  old = copy.deepcopy(saved)
  old["normalizer"] = {"type": "Sequence", "normalizers": [
      saved["normalizer"], {"type": "Strip", "strip_left": False, "strip_right": True},
      {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}
  old["pre_tokenizer"] = saved["decoder"]
  return old


def as_sentencepiece(saved):
  """What transformers 5.24 builds of a SentencePiece model where no class says more, with bytes and a symbol."""
  tokenizer = Tokenizer.from_str(json.dumps(saved))
  tokenizer.normalizer = normalizers.Sequence([
      tokenizer.normalizer, normalizers.Replace(Regex(r"\A +| +\z"), ""), normalizers.Replace(Regex(" {2,}"), " "),
      normalizers.Replace(" ", "▁"), normalizers.Replace(Regex(r"\A▁"), "▁▁")])
  tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
      pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False),
      pre_tokenizers.Split(Regex("fogu|xyz"), behavior="isolated")])
  tokenizer.decoder = decoders.Sequence([
      decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1)])
  return json.loads(tokenizer.to_str())


def folders(root):
  """Makes the folders, each in the way in which transformers came to write it."""
  config = {"tokenizer_class": "T5Tokenizer", "extra_ids": SENTINELS}
  source = os.path.join(root, "source")
  write(source, {"config.json": {"model_type": "t5"}, "tokenizer_config.json": config})
  shutil.copy(MODEL, os.path.join(source, "spiece.model"))
  yield "spiece", source
  for name, added in (("t5", []), ("added", ADDED)):
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.add_tokens(added)
    tokenizer.save_pretrained(os.path.join(root, name))
    write(os.path.join(root, name), {"config.json": {"model_type": "t5"}})
    yield name, os.path.join(root, name)
  saved = loaded(os.path.join(root, "added"))
  decoder = {token["id"]: {k: v for k, v in token.items() if k != "id"} for token in saved["added_tokens"]}
  old = {**config, "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "added_tokens_decoder": decoder, "clean_up_tokenization_spaces": True, "extra_special_tokens": {},
         "additional_special_tokens": [f"<extra_id_{i}>" for i in range(SENTINELS)] + ["<sep>", "<wide>"]}
  for name, model_type in (("version_4", "t5"), ("umt5", "umt5")):
    write(os.path.join(root, name), {"config.json": {"model_type": model_type}, "tokenizer_config.json": old,
                                     "tokenizer.json": as_version_4(saved)})
    yield name, os.path.join(root, name)
  slow = os.path.join(root, "slow")
  special = {"additional_special_tokens": old["additional_special_tokens"], "eos_token": "</s>", "pad_token": "<pad>",
             "unk_token": "<unk>"}
  write(slow, {"config.json": {"model_type": "mt5"}, "tokenizer_config.json": config, "special_tokens_map.json": special,
               "added_tokens.json": {token["content"]: token["id"] for token in saved["added_tokens"]}})
  shutil.copy(MODEL, os.path.join(slow, "spiece.model"))
  yield "slow", slow
  backend = os.path.join(root, "backend")
  write(backend, {"config.json": {"model_type": "t5"}, "tokenizer.json": as_sentencepiece(saved),
                  "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>",
                                            "pad_token": "<pad>", "mask_token": "<mask>"}})
  yield "backend", backend
  for name, added in (("byt5", []), ("byt5_added", ADDED)):
    tokenizer = ByT5Tokenizer(extra_ids=SENTINELS)
    tokenizer.add_tokens(added)
    tokenizer.save_pretrained(os.path.join(root, name))
    write(os.path.join(root, name), {"config.json": {"model_type": "t5"}})
    yield name, os.path.join(root, name)


def files_of(folder):
  found = {}
  for name in sorted(os.listdir(folder)):
    if name == "spiece.model":
      found[name] = True
      continue
    with open(os.path.join(folder, name)) as file:
      found[name] = json.load(file)
  if "tokenizer.json" in found:
    model = found["tokenizer.json"]["model"]
    model["vocab"] = len(model["vocab"]) - 1000
    normalizer = found["tokenizer.json"]["normalizer"]
    normalizer.get("normalizers", [normalizer])[0]["precompiled_charsmap"] = True
  return found


def reference(name, folder):
  tokenizer = AutoTokenizer.from_pretrained(folder)
  rng = random.Random(7)
  ids = [tokenizer(line, add_special_tokens=False)["input_ids"] for line in lines()]
  is_sentinel = lambda id: str(tokenizer.convert_ids_to_tokens(id)).startswith("<extra_id_")
  shown = [[id for id in line if not is_sentinel(id)] for line in ids]
  shown += [[id for id in (rng.randrange(len(tokenizer)) for _ in range(8)) if not is_sentinel(id)] for _ in range(10)]
  return {"name": name, "files": files_of(folder), "size": len(tokenizer), "eos": tokenizer.eos_token_id,
          "ends": tokenizer("di")["input_ids"][-1] == tokenizer.eos_token_id, "ids": ids, "decode": shown[-10:],
          "texts": [tokenizer.decode(line, skip_special_tokens=True) for line in shown]}


if __name__ == "__main__":
  with tempfile.TemporaryDirectory() as root:
    found = {"lines": list(lines()), "folders": [reference(name, folder) for name, folder in folders(root)]}
  rows = ",\n".join(json.dumps(folder, ensure_ascii=False, separators=(",", ":")) for folder in found["folders"])
  with open(os.path.join(HERE, "hugging_face.json"), "w") as file:
    file.write('{"lines":' + json.dumps(found["lines"], ensure_ascii=False) + ',"folders":[\n' + rows + "\n]}\n")
