//! Runs that train the additions of LoRA alone, and PEFT as a reader of what Gimlet writes.

use std::process::Command;

use gimlet::checkpoint::{DType, Stored};

use crate::arrays;
use crate::command::{Train, sources};
use crate::folder::Folder;

#[test]
fn additions_alone_change_and_have_state() {
    let folder = Folder::pretrained();
    let run = |steps: u64| {
        folder
            .train("finetune_tiny.gin")
            .arg("--gin_file=gimlet/lora.gin")
            .bind("LORA_RANK", 2)
            .bind("TRAIN_STEPS", steps)
    };
    let described = run(6).arg("--dry_run").succeeds().stdout;
    let line =
        "trained      384 in 12 arrays, which alone have gradients and a state of the optimizer";
    assert!(described.contains(line), "{described}");
    run(6).succeeds();
    let [before, after] =
        [("pretrained", 4), ("model", 6)].map(|(dir, step)| arrays::open(&folder.path(dir), step));
    let is_addition = |name: &str| name.contains("/lora_");
    let mut num_additions = 0;
    for leaf in after.leaves() {
        let values = after.read(leaf.name).expect("the array is whole");
        match leaf.name.strip_prefix("target/") {
            Some(name) if is_addition(name) => {
                let floats = values.to_f32().expect("parameters are floats");
                assert!(floats.iter().any(|value| *value != 0.0), "{name} has moved");
                num_additions += 1;
            }
            Some(name) => {
                let old = before.read(leaf.name).expect("the array is whole");
                assert!(old == values, "{name} has changed");
            }
            None => assert!(is_addition(leaf.name) || leaf.dtype == DType::I32, "{}", leaf.name),
        }
    }
    assert_eq!(num_additions, 12);
}

#[test]
#[ignore = "takes ten seconds, and needs a Python with peft, transformers and torch: `GIMLET_PYTHON=python3 make soak`"]
fn peft_finds_the_same_logits() {
    let Some(python) = std::env::var_os("GIMLET_PYTHON") else {
        eprintln!("skipped: GIMLET_PYTHON names no Python with peft");
        return;
    };
    let folder = Folder::new();
    let from = |name: &str| sources("hugging_face").join(name).display().to_string();
    let convert = |name: &str, to: &str, format: &[&str]| {
        let convert = Train::new(&folder.path("")).tool(&["checkpoint", "convert"]);
        let convert = convert.arg(from(name)).arg(to);
        format.iter().fold(convert, |convert, word| convert.arg(*word)).succeeds();
    };
    convert("peft_lora", "lora", &["--to", "peft"]);
    convert("peft_lora", "merged", &["--to", "hugging_face", "--merge"]);
    convert("peft_prompt", "prompt", &["--to", "peft"]);
    let compared = Command::new(python)
        .arg(sources("hugging_face").join("peft_clients.py"))
        .args([from("flan_t5"), from("peft_lora")])
        .args(["lora", "merged"].map(|name| folder.path(name)))
        .args([from("peft_prompt"), folder.path("prompt").display().to_string()])
        .output()
        .expect("Python starts");
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
}
