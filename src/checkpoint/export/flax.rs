//! Writes `flax_model.msgpack`, which transformers' Flax models load: a tree of arrays in flax's
//! msgpack.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rmpv::encode::write_value;

use super::model::Named;
use super::tensor::Tensor;
use super::tensor_file::TensorFile;
use crate::names::Axes;
use crate::native::{Pieces, write_map_head};
use crate::stored::Stored;

/// Writes the tensors into a file; the caller finishes the file.
pub(super) fn write_file(
    from: &dyn Stored,
    model: &Named,
    mut out: TensorFile,
) -> io::Result<TensorFile> {
    let mut tree = Node::default();
    for (tensor, kind) in model.tensors.values() {
        let module = tensor.name.strip_suffix(kind.torch).expect("its last part is its kind's");
        let path = module.split_terminator('.').chain([kind.flax]);
        let node =
            path.fold(&mut tree, |node, key| node.children.entry(key.to_string()).or_default());
        node.leaf = Some((tensor, kind.flax_axes()));
    }
    tree.write(from, &mut out)?;
    Ok(out)
}

#[derive(Default)]
struct Node<'a> {
    children: BTreeMap<String, Node<'a>>,
    leaf: Option<(&'a Tensor, Axes)>,
}

impl Node<'_> {
    fn write(&self, from: &dyn Stored, out: &mut TensorFile) -> io::Result<()> {
        if let Some((tensor, axes)) = self.leaf {
            let shape = match axes {
                Axes::Same => &tensor.shape,
                Axes::Swapped => &tensor.out_shape,
            };
            let write = |out: &mut dyn Write| {
                tensor.write(from, axes, &mut Pieces::new(out, tensor.dtype, shape)?)
            };
            return out.tensor(write).map(drop);
        }
        write_map_head(out, self.children.len())?;
        self.children.iter().try_for_each(|(key, child)| {
            write_value(out, &key.as_str().into())?;
            child.write(from, out)
        })
    }
}
