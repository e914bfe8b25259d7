//! A run trains on a task that its own gin file declares.

use crate::events::read_scalars;
use crate::folder::Folder;

const RUN: &str = r#"
include "pretrain_tiny.gin"

mine/seqio.Task:
  source = @seqio.JsonLinesDataSource()
  preprocessors = [
    @seqio.preprocessors.tokenize(),
    @seqio.preprocessors.append_eos_after_trim(),
  ]
  output_features = {"inputs": @seqio.Feature(), "targets": @seqio.Feature()}
mine/seqio.Feature.vocabulary = %VOCABULARY
mine/seqio.JsonLinesDataSource.split_to_filepattern = {"train": "echo-train.jsonl"}

MIXTURE_OR_TASK_NAME = "mine"
TRAIN_STEPS = 2
train.train_eval_dataset_cfg = None
"#;

#[test]
fn a_task_block_in_the_file_of_the_run_declares_the_task() {
    let folder = Folder::new();
    folder.write("run.gin", RUN);
    folder.train("run.gin").succeeds();
    assert_eq!(read_scalars(&folder.path("model/train"))["loss"].len(), 2);
}
