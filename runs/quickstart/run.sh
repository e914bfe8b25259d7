#!/usr/bin/env bash
# Pretrains a small T5 on a book, then fine-tunes it to normalize dates: `make quickstart`.
# Killed, it goes on where it was when called again; finished, it shows its results again.
set -euo pipefail
cd "$(dirname "$0")/../.."

gimlet=${GIMLET:-${CARGO_TARGET_DIR:-target}/release/gimlet}
out=${QUICKSTART_DIR:-target/quickstart}

echo "== 1 of 2: pretraining on the text of runs/quickstart/data/botchan.train.txt"
"$gimlet" train --gin_file=runs/quickstart/pretrain.gin --gin.MODEL_DIR="'$out/pretrain'"

echo "== 2 of 2: fine-tuning on dates, scored by decoding held-out ones"
"$gimlet" train --gin_file=runs/quickstart/finetune.gin --gin.MODEL_DIR="'$out/finetune'" \
  --gin.INITIAL_CHECKPOINT_PATH="'$out/pretrain/checkpoint_200'"

python3 runs/quickstart/show.py "$out"
