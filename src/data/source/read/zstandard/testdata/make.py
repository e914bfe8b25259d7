"""Writes the .zst files beside this script with the `zstd` and `pzstd` programs (1.5.4) and PyPI's zstandard 0.25.0.

Windows are small, so that some kilobytes of text take many blocks. The text is that of `committed_text` in ../tests.rs.
"""

import pathlib
import subprocess

import zstandard

FOLDER = pathlib.Path(__file__).parent


def text() -> bytes:
  words = ["the", "of the", "and", "in a", "is to", "was"]
  lines = []
  for i in range(1500):
    mixed = i * 2654435761 % 2**32
    word = words[mixed % 6]
    lines.append(f"line {i} {word} {mixed >> (12 + i % 16)} {word}\n")
  return "".join(lines).encode()


def main() -> None:
  data = text()
  for name, flags in {
      "level1": ["-1", "--zstd=wlog=11"],
      "level3": ["-3", "--zstd=wlog=12", "--no-check"],
      "level19": ["-19", "--zstd=wlog=13"],
  }.items():
    packed = subprocess.run(["zstd", "-q", "-c", *flags], input=data, capture_output=True, check=True).stdout
    (FOLDER / f"{name}.zst").write_bytes(packed)
  # Three frames, each behind one that is passed over.
  source, target = FOLDER / "text", FOLDER / "pzstd.zst"
  source.write_bytes(data)
  pzstd = ["pzstd", "-q", "-f", "-1", "-p", "4", str(source), "-o", str(target)]
  subprocess.run(pzstd, check=True)
  target.write_bytes(target.read_bytes() * 3)
  source.unlink()
  # A frame for each part, flushed within.
  parameters = zstandard.ZstdCompressionParameters(compression_level=6, window_log=12, write_checksum=True)
  packed = b""
  for part in range(0, len(data), 20000):
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    for at in range(part, min(part + 20000, len(data)), 700):
      packed += writer.compress(data[at : min(at + 700, part + 20000)])
      packed += writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    packed += writer.flush()
  (FOLDER / "flushed.zst").write_bytes(packed)


if __name__ == "__main__":
  main()
