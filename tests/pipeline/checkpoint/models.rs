//! A T5 of any size is the same after conversion to and from every format.

use gimlet::checkpoint::{
    Array, DType, HuggingFaceOptions, MeshOptions, NativeOptions, Stored, Weights, Writer,
    export_hugging_face, export_mesh_tensorflow, export_orbax, export_t5x, export_torch,
};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::Path;
use proptest::prelude::*;
use proptest::sample::select;

use super::scratch;

/// The sizes of a model.
#[derive(Clone, Debug)]
struct Sizes {
    vocab_size: usize,
    emb_dim: usize,
    num_heads: usize,
    head_dim: usize,
    mlp_dim: usize,
    num_layers: [usize; 2],
    is_gated: bool,
    is_tied: bool,
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let widths = (2..9_usize, 1..6_usize, 1..4_usize, 1..4_usize, 1..6_usize);
    (widths, 1..4_usize, 1..13_usize, any::<bool>(), any::<bool>()).prop_map(
        |((vocab_size, emb_dim, num_heads, head_dim, mlp_dim), encoder, decoder, gated, tied)| {
            let num_layers = [encoder, decoder];
            let (is_gated, is_tied) = (gated, tied);
            Sizes {
                vocab_size,
                emb_dim,
                num_heads,
                head_dim,
                mlp_dim,
                num_layers,
                is_gated,
                is_tied,
            }
        },
    )
}

impl Sizes {
    /// The parameters by name, with their shapes.
    fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let mut found =
            vec![("token_embedder/embedding".to_string(), vec![self.vocab_size, self.emb_dim])];
        for (stack, num_layers) in ["encoder", "decoder"].into_iter().zip(self.num_layers) {
            found.push((format!("{stack}/relpos_bias/rel_embedding"), vec![self.num_heads, 32]));
            found.push((format!("{stack}/{stack}_norm/scale"), vec![self.emb_dim]));
            let layers = (0..num_layers).flat_map(|layer| self.layer(stack, layer));
            found.extend(layers);
        }
        if !self.is_tied {
            let logits = "decoder/logits_dense/kernel".to_string();
            found.push((logits, vec![self.emb_dim, self.vocab_size]));
        }
        found
    }

    fn layer(&self, stack: &str, layer: usize) -> Vec<(String, Vec<usize>)> {
        let joined = self.num_heads * self.head_dim;
        let (attentions, norms) = match stack {
            "encoder" => (&["attention"][..], &["attention", "mlp"][..]),
            _ => (
                &["self_attention", "encoder_decoder_attention"][..],
                &["self_attention", "cross_attention", "mlp"][..],
            ),
        };
        let mut found = Vec::new();
        for attention in attentions {
            let kernel = |name: &str| format!("{attention}/{name}/kernel");
            found.extend(
                ["query", "key", "value"].map(|name| (kernel(name), vec![self.emb_dim, joined])),
            );
            found.push((kernel("out"), vec![joined, self.emb_dim]));
        }
        let inputs = if self.is_gated { &["wi_0", "wi_1"][..] } else { &["wi"] };
        let input = |name: &&str| (format!("mlp/{name}/kernel"), vec![self.emb_dim, self.mlp_dim]);
        found.extend(inputs.iter().map(input));
        found.push(("mlp/wo/kernel".to_string(), vec![self.mlp_dim, self.emb_dim]));
        let norm = |name: &&str| (format!("pre_{name}_layer_norm/scale"), vec![self.emb_dim]);
        found.extend(norms.iter().map(norm));
        let named = |(name, shape)| (format!("{stack}/layers_{layer}/{name}"), shape);
        found.into_iter().map(named).collect()
    }

    /// Saves a checkpoint of the model, with distinct values.
    fn save(&self, model_dir: &Path, dtype: DType) -> Path {
        let writer = Writer::create(model_dir, 3, None).unwrap();
        let mut next = 0_u16;
        for (name, shape) in self.parameters() {
            let count = shape.iter().product::<usize>();
            let values: Vec<f32> = (0..count)
                .map(|_| {
                    next += 1;
                    f32::from(next)
                })
                .collect();
            let array = Array::from_f32(&shape, &values).cast(dtype);
            writer.array(&format!("target/{name}"), array.view()).unwrap();
        }
        writer.array("state/step", Array::scalar_i32(3).view()).unwrap();
        writer.commit().unwrap()
    }
}

/// Writes the checkpoint in each format; returns the paths.
fn export_all(from: &dyn Stored, dir: &Path) -> Vec<Path> {
    let native = NativeOptions::default();
    let options = |weights| HuggingFaceOptions { weights, ..HuggingFaceOptions::default() };
    let mut written = vec![
        export_t5x(from, (dir.join("t5x"), 3), &native).unwrap(),
        export_orbax(from, (dir.join("orbax"), 3), &native).unwrap(),
        export_mesh_tensorflow(from, (dir.join("mesh"), 3), MeshOptions::default()).unwrap(),
    ];
    for weights in [Weights::Safetensors, Weights::Torch, Weights::Flax] {
        let to = dir.join(weights.file_name()).suffixed(".folder");
        export_hugging_face(from, &to, &options(weights), HUGGING_FACE).unwrap();
        written.push(to);
    }
    let file = dir.join("model.pth");
    export_torch(from, &file, &options(Weights::Torch), HUGGING_FACE).unwrap();
    written.push(file);
    written
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format_gives_back_what_it_was_given(
        sizes in sizes(), dtype in select(vec![DType::F32, DType::Bf16, DType::F16]),
    ) {
        let (_dir, dir) = scratch();
        let original = open(&sizes.save(&dir.join("from"), dtype)).unwrap();
        for path in export_all(original.as_ref(), &dir) {
            let stored = open(&path).unwrap();
            stored.verify().unwrap();
            for (name, shape) in sizes.parameters() {
                let name = format!("target/{name}");
                let expected = original.read(&name).unwrap();
                prop_assert_eq!(&stored.read(&name).unwrap(), &expected, "{} of {}", name, path);
                let part: Vec<_> = shape.iter().map(|size| size / 2..*size).collect();
                prop_assert_eq!(stored.read_part(&name, &part).unwrap(), expected.part(&part));
            }
            let is_target = |name: &&str| name.starts_with("target/");
            let count = stored.leaves().iter().map(|leaf| leaf.name).filter(is_target).count();
            prop_assert_eq!(count, sizes.parameters().len(), "{}", path);
        }
    }
}
