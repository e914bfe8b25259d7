//! Attention by blocks of a layout in packed rows.

use std::collections::BTreeMap;

use crate::events::read_scalars;
use crate::folder::Folder;

/// The losses of a training by step, on lines of more than half a row.
fn losses(pack: &str) -> BTreeMap<i64, f64> {
    let folder = Folder::new();
    let line = |number: usize| {
        let letter = |place: usize| char::from(b'a' + ((number + place) % 26) as u8);
        (0..40 + number * 7 % 21).map(letter).collect::<String>()
    };
    folder.write("lines.txt", (0..40).map(line).collect::<Vec<String>>().join("\n"));
    let train = folder.train("masked_bert.gin").bind("TRAIN_STEPS", 3);
    train.bind("train/utils.DatasetConfig.pack", pack).bind_text("MODEL_DIR", "trained").succeeds();
    read_scalars(&folder.path("trained/train"))["loss"].clone()
}

#[test]
fn a_packed_row_of_one_example_has_the_loss_of_the_row_alone() {
    let packed = losses("True");
    assert_eq!(packed.len(), 3);
    assert_eq!(packed, losses("False"));
}
