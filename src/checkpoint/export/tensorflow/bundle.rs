//! The data of a bundle, and the table with the position of each variable.

use std::io;

use prost::Message;

use super::table::TableBuilder;
use super::variables::Variables;
use crate::array::num_elements;
use crate::export::tensor_file::TensorFile;
use crate::foreign::{BundleEntry, Dim, Header, Shape, Version, mask, type_number};
use crate::raw::RawInfo;
use crate::stored::Stored;

/// The version of the bundle format; there has been only one.
const PRODUCER: i32 = 1;

/// Writes the variables into a file, which the caller finishes, and returns the bytes of the table. The variables
/// follow one another in the order of their names, as in files of TensorFlow's own writer.
pub(super) fn write_data(
    from: &dyn Stored,
    variables: &Variables,
    mut out: TensorFile,
) -> io::Result<(Vec<u8>, TensorFile)> {
    let mut table = TableBuilder::default();
    let version = Some(Version { producer: PRODUCER });
    table.add(b"", &Header { num_shards: 1, endianness: 0, version }.encode_to_vec());
    for (name, variable) in variables {
        let offset = out.position();
        let crc32c = out.tensor(|out| variable.write(from, out))?;
        let info = variable.info();
        let size = out.position() - offset;
        assert_eq!(
            size,
            (num_elements(&info.shape) * info.dtype.size()) as u64,
            "`{name}` has the bytes of its shape"
        );
        table.add(name.as_bytes(), &entry(&info, offset, crc32c).encode_to_vec());
    }
    Ok((table.finish(), out))
}

fn entry(RawInfo { dtype, shape }: &RawInfo, offset: u64, crc32c: u32) -> BundleEntry {
    let dim = shape.iter().map(|size| Dim { size: *size as i64 }).collect();
    BundleEntry {
        dtype: type_number(*dtype),
        shape: Some(Shape { dim, unknown_rank: false }),
        shard_id: 0,
        offset: offset as i64,
        size: (num_elements(shape) * dtype.size()) as i64,
        crc32c: mask(crc32c),
        slices: Vec::new(),
    }
}
