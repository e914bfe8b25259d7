//! Any written tree is read again, whole and in parts.

use gimlet::checkpoint::{Array, Compression, DType, Writer};
use gimlet::models::open;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::{overwrite, scratch};

fn arrays() -> impl Strategy<Value = Array> {
    let dtypes = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::Bf16,
        DType::F16,
        DType::F32,
        DType::F64,
    ];
    (select(dtypes.to_vec()), vec(0..6_usize, 0..4), any::<u64>()).prop_map(
        |(dtype, shape, seed)| {
            let count: usize = shape.iter().product();
            let byte = |i: usize| (seed.rotate_left(i as u32 % 61) as u8).wrapping_add(i as u8);
            let mask = if dtype == DType::Bool { 1 } else { 0xff };
            let data = (0..count * dtype.size()).map(|i| byte(i) & mask).collect();
            Array { dtype, shape, data }
        },
    )
}

/// Generates names that are no prefixes of one another.
fn trees() -> impl Strategy<Value = Vec<(String, Array)>> {
    let name = "(target|state/param_states)/[a-z]{1,3}(/[a-z_0-9]{1,8}){0,2}/(kernel|v|v_row)";
    btree_map(name, arrays(), 1..6).prop_map(|tree| tree.into_iter().collect())
}

fn compressions() -> impl Strategy<Value = Compression> {
    select(vec![
        Compression::None,
        Compression::Gzip(1),
        Compression::Gzip(9),
        Compression::Zstd(3),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        tree in trees(), compression in compressions(), zarr in any::<bool>(), cut in 0.0..1.0_f64,
    ) {
        let is_nested = |name: &str| {
            tree.iter().any(|(other, _)| name.starts_with(&format!("{other}/")))
        };
        prop_assume!(!tree.iter().any(|(name, _)| is_nested(name)));
        let (_dir, model_dir) = scratch();
        let writer = Writer::create(&model_dir, 7, None).unwrap().with_compression(compression);
        for (name, array) in &tree {
            match zarr {
                true => writer.zarr(name, array.view()).unwrap(),
                false => writer.array(name, array.view()).unwrap(),
            }
        }
        let stored = open(&writer.commit().unwrap()).unwrap();
        prop_assert_eq!(stored.leaves().len(), tree.len());
        let names: Vec<&str> = tree.iter().map(|(name, _)| &name[..]).collect();
        let mut read = Vec::new();
        stored.read_each(&names, &mut |name, array| {
            read.push((name.to_string(), array));
            Ok(())
        }).unwrap();
        prop_assert_eq!(&read, &tree);
        for (name, array) in &tree {
            let start = |size: usize| (size as f64 * cut) as usize;
            let part: Vec<_> = array.shape.iter().map(|&size| start(size)..size.div_ceil(2).max(start(size))).collect();
            prop_assert_eq!(stored.read_part(name, &part).unwrap(), array.part(&part));
        }
    }

    /// The array is written in one chunk and then cut by hand: zarr pads the last of each dimension.
    #[test]
    fn any_chunking_is_read_in_any_part(
        shape in vec(1..7_usize, 1..4), chunk in vec(1..9_usize, 3), starts in vec(0.0..1.0_f64, 3),
        lengths in vec(0.0..1.0_f64, 3), is_fortran in any::<bool>(),
    ) {
        let chunks: Vec<usize> = shape.iter().zip(chunk).map(|(_, chunk)| chunk).collect();
        let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| i as f32).collect();
        let array = Array::from_f32(&shape, &values);
        let (_dir, model_dir) = scratch();
        let writer = Writer::create(&model_dir, 1, None).unwrap().with_compression(Compression::None);
        writer.zarr("target/x", array.view()).unwrap();
        let dir = writer.commit().unwrap();
        dir.join("gimlet").remove_dir_all().unwrap();
        let folder = dir.join("target.x");
        rechunk(&folder, &array, &chunks, is_fortran);
        let stored = open(&dir).unwrap();
        prop_assert_eq!(&stored.read("target/x").unwrap(), &array);
        let part: Vec<_> = shape.iter().enumerate().map(|(d, &size)| {
            let start = (size as f64 * starts[d]) as usize;
            start..start + ((size - start) as f64 * lengths[d]).ceil() as usize
        }).collect();
        prop_assert_eq!(stored.read_part("target/x", &part).unwrap(), array.part(&part));
    }
}

/// Writes the chunks of an array one element at a time.
fn rechunk(folder: &gimlet::storage::Path, array: &Array, chunks: &[usize], is_fortran: bool) {
    let order = if is_fortran { "F" } else { "C" };
    let text = format!(
        r#"{{"chunks":{chunks:?},"compressor":null,"dtype":"<f4","fill_value":null,"filters":null,"order":"{order}","shape":{:?},"zarr_format":2}}"#,
        array.shape
    );
    folder.remove_dir_all().unwrap();
    folder.create_dir_all().unwrap();
    overwrite(&folder.join(".zarray"), text.as_bytes());
    let rank = chunks.len();
    let mut files = std::collections::BTreeMap::<String, Vec<u8>>::new();
    for (i, element) in array.data.chunks(4).enumerate() {
        let mut rest = i;
        let mut index = vec![0; rank];
        for d in (0..rank).rev() {
            index[d] = rest % array.shape[d];
            rest /= array.shape[d];
        }
        let name: Vec<String> = (0..rank).map(|d| (index[d] / chunks[d]).to_string()).collect();
        let within = |d: usize| index[d] % chunks[d];
        let at = match is_fortran {
            true => (0..rank).rev().fold(0, |at, d| at * chunks[d] + within(d)),
            false => (0..rank).fold(0, |at, d| at * chunks[d] + within(d)),
        };
        let size: usize = chunks.iter().product();
        let file = files.entry(name.join(".")).or_insert_with(|| vec![0xee; 4 * size]);
        file[4 * at..4 * at + 4].copy_from_slice(element);
    }
    for (name, bytes) in files {
        overwrite(&folder.join(&name), &bytes);
    }
}
