//! Files of `torch.save`: the current zip archives and the older form.

use gimlet::checkpoint::{Array, DType, Format};
use gimlet::models::open;

use super::{check_params, copied, opened};
use crate::checkpoint::scratch;

#[test]
fn both_forms_hold_the_same_model() {
    for name in ["torch/zip.pth", "torch/legacy.pth"] {
        let stored = opened(name);
        assert_eq!(stored.format(), Format::Torch);
        // A tied head shares its storage, and is not an array of T5X.
        assert_eq!(check_params(stored.as_ref(), DType::F32), 8 + 13 + 5, "{name}");
    }
}

#[test]
fn the_model_is_found_beside_optimizer_and_counters() {
    let stored = opened("torch/training.pth");
    assert_eq!(stored.step().unwrap(), 8, "iterations count from 0");
    let leaves = stored.leaves();
    let params = leaves.iter().filter_map(|leaf| Some((leaf.name.strip_prefix("target/")?, leaf)));
    let params: Vec<_> = params.collect();
    assert!(params.iter().any(|(name, _)| *name == "encoder/encoder_norm/scale"), "{params:?}");
    for (name, leaf) in params.into_iter().filter(|(name, _)| !name.contains("logits_dense")) {
        let expected = super::value(name, leaf.shape, DType::Bf16);
        assert_eq!(stored.read(leaf.name).unwrap(), expected, "{name}");
    }
}

/// Returns 0, 1, 2, ... in the shape of `hugging_face.py`.
fn whole() -> Array {
    Array::from_f32(&[3, 4, 5], &(0..60u8).map(f32::from).collect::<Vec<_>>())
}

fn pick(shape: &[usize], at: &[u8]) -> Array {
    Array::from_f32(shape, &at.iter().map(|value| f32::from(*value)).collect::<Vec<_>>())
}

#[test]
fn views_have_the_elements_that_torch_shows() {
    for file in ["torch/odd.pt", "torch/odd_legacy.pt", "torch/odd_5.pt"] {
        let stored = opened(file);
        let read = |name: &str| stored.read(&format!("target/{name}")).unwrap();
        assert_eq!(read("whole"), whole());
        let turned: Vec<u8> = (0..5u8)
            .flat_map(|k| (0..3).flat_map(move |i| (0..4).map(move |j| i * 20 + j * 5 + k)))
            .collect();
        assert_eq!(read("turned"), pick(&[5, 3, 4], &turned), "{file}");
        assert_eq!(read("stepped"), pick(&[2, 2], &[23, 33, 43, 53]), "{file}");
        assert_eq!(read("scalar"), pick(&[], &[48]), "{file}");
        assert_eq!(read("empty"), pick(&[0, 4], &[]), "{file}");
        assert_eq!(read("parameter"), pick(&[5], &[0, 1, 2, 3, 4]), "{file}");
        assert_eq!(read("double"), whole().part(&[0..1, 0..4, 0..5]).cast(DType::F64).reshaped());
        assert_eq!(read("half"), whole().part(&[0..1, 0..4, 0..5]).cast(DType::F16).reshaped());
        let long = read("long");
        assert_eq!((long.dtype, long.data.len(), long.data[8]), (DType::I64, 32, 1));
        assert_eq!(read("int").dtype, DType::I32);
        assert_eq!((read("bool").dtype, read("bool").data), (DType::Bool, vec![1, 0]));
        let rows = stored.read_part("target/turned", &[3..5, 1..3, 2..3]).unwrap();
        assert_eq!(rows, read("turned").part(&[3..5, 1..3, 2..3]), "{file}");
    }
}

/// Drops a first axis of one element.
trait Reshaped {
    fn reshaped(self) -> Self;
}

impl Reshaped for Array {
    fn reshaped(mut self) -> Self {
        assert_eq!(self.shape.remove(0), 1);
        self
    }
}

#[test]
fn a_whole_module_is_refused_by_the_name_of_its_class() {
    let path = crate::checkpoint::fixture("other/torch/module.pt");
    let error = open(&path).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("asks for `torch.nn.modules.linear.Linear`"), "{message}");
    assert!(message.contains("state_dict() alone") && error.is_users(), "{message}");
}

#[test]
fn eight_bit_floats_are_refused_by_their_type() {
    for (file, found) in [
        ("torch/float8.pt", "a type that has no class of storages, such as float8"),
        ("hugging_face/float8.safetensors", "`x` is of type F8_E4M3"),
    ] {
        let path = crate::checkpoint::fixture(&format!("other/{file}"));
        let error = open(&path).unwrap_err();
        let message = error.to_string();
        assert!(error.is_users() && message.contains(found), "{message}");
        assert!(message.contains("expected floats of 16 bits or more, or integers"), "{message}");
    }
}

#[test]
fn a_changed_byte_of_an_archive_is_noticed() {
    let (_dir, dir) = scratch();
    let file = copied("torch/odd.pt", &dir);
    let mut bytes = file.read().unwrap();
    let three = 3f32.to_le_bytes();
    let at = bytes.windows(4).position(|window| window == three).unwrap();
    bytes[at] ^= 1;
    file.write_atomic(&bytes).unwrap();
    let stored = open(&file).unwrap();
    let error = stored.read("target/whole").unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("checksum"), "{error}");
    // The element lies in another part, and in another view of the same storage.
    for (name, part) in [("whole", vec![2..3, 0..4, 0..5]), ("stepped", vec![0..2, 0..2])] {
        let error = open(&file).unwrap().read_part(&format!("target/{name}"), &part).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("checksum"), "{name}: {error}");
    }
    assert!(stored.verify().is_err());
}
