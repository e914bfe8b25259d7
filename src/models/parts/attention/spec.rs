//! The description of an attention, and what follows from it.

use super::cdq::CDQ_QUERY;
use super::pairs::{Kernels, LearnedBias, Pairs};
use super::reach::Reach;
use crate::models::parts::{
    ForwardWork, KernelScale, KernelSpec, Part, PassContext, ScaledSide, StreamDims, Tokens, kernel,
};
use crate::nn::{Initializer, ParamSpec, SCORES_AT_ONCE};

/// The kernel whose results are queries.
const QUERY: &str = "query";

/// The names of an attention of a layer, with the norm before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSpec {
    /// Name of the norm.
    pub norm: &'static str,
    /// Name of the attention.
    pub name: &'static str,
    /// Whether keys and values come from the encoding, instead of the stack's own positions.
    pub reads_encoding: bool,
}

/// An attention as a part of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Its names.
    pub spec: AttentionSpec,
    /// The stream.
    pub stream: StreamDims,
    /// Heads.
    pub num_heads: usize,
    /// Those of them whose queries depend on the row too: none, all, or half, which share keys, values and biases with the
    /// other half.
    pub num_cdq_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Whether scores are computed in float32, for any format of activations.
    pub float32_logits: bool,
    /// Whether scores are divided by `sqrt(head_dim)`.
    pub scales_logits: bool,
    /// The stack's own positions that a position attends to.
    pub reach: Reach,
    /// The initial values of kernels of queries.
    pub query: Initializer,
    /// Those of the other kernels.
    pub others: Initializer,
    /// Whether learned vectors multiply keys and values.
    pub has_scales: bool,
}

impl AttentionSpec {
    /// Path of the norm in the layer of that path.
    pub fn norm(&self, layer: &str) -> String {
        format!("{layer}/{}", self.norm)
    }
}

impl Attention {
    /// Kernels of the layer of that path by their names. Queries are divided where scores are.
    pub fn kernels<const N: usize>(&self, layer: &str, names: [&str; N]) -> [KernelSpec; N] {
        let divisor = self.scales_logits.then(|| (self.head_dim as f64).sqrt());
        names.map(|name| KernelSpec {
            path: format!("{layer}/{}/{name}", self.spec.name),
            divisor: divisor.filter(|_| [QUERY, CDQ_QUERY].contains(&name)),
            has_bias: self.stream.has_biases,
            scale: self.scale(layer, name),
        })
    }

    /// The learned vector that multiplies keys or values.
    fn scale(&self, layer: &str, name: &str) -> Option<KernelScale> {
        let conv = match name {
            "key" => "k_conv",
            "value" => "v_conv",
            _ => return None,
        };
        let path = format!("{layer}/{}/{conv}", self.spec.name);
        self.has_scales.then(|| KernelScale::new(&path, ScaledSide::Results))
    }

    /// Path of the norm of tokens beside the sequence, if there are such tokens. Source: flaxformer
    /// `long_attention.py`, whose norm has no name of its own.
    pub(super) fn side_norm(&self, layer: &str) -> Option<String> {
        let has_side = self.is_by_blocks() && self.reach.tokens_per_block().is_some();
        has_side.then(|| format!("{layer}/{}/T5LayerNorm_0", self.spec.name))
    }

    /// Width of all heads.
    fn joined(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Width of the queries that are projections.
    pub(super) fn queries(&self) -> usize {
        self.joined() - self.num_cdq_heads * self.head_dim
    }

    /// Width of keys, and of values.
    fn keys(&self) -> usize {
        match self.num_cdq_heads {
            0 => self.joined(),
            heads => heads * self.head_dim,
        }
    }

    /// Whether positions attend to neighbours or to the blocks of a layout, some blocks at a time.
    pub fn is_by_blocks(&self) -> bool {
        !self.spec.reads_encoding && self.reach != Reach::All
    }

    /// Positions of which it computes keys and values, but tokens beside the sequence.
    fn read(&self, tokens: Tokens) -> f64 {
        if self.spec.reads_encoding { tokens.encoded() } else { tokens.count() }
    }

    /// Keys of a query.
    fn num_keys(&self, tokens: Tokens) -> f64 {
        match self.spec.reads_encoding {
            true => tokens.encoding as f64,
            false => self.reach.num_keys(tokens.length as f64),
        }
    }

    /// Tokens beside a sequence, whose keys and values it computes too.
    fn num_beside(&self, tokens: Tokens) -> f64 {
        if self.spec.reads_encoding { 0.0 } else { self.reach.num_beside(tokens.length as f64) }
    }

    /// The tensors with a number for each pair of positions, unless it attends by blocks. `masks` counts those that are made
    /// on the way to the attention's.
    pub fn pairs(
        &self,
        tokens: Tokens,
        (masks, bias): (f64, LearnedBias),
        kernels: Kernels,
    ) -> Option<Pairs> {
        let rows = (tokens.rows as f64).max(1.0);
        (!self.is_by_blocks()).then(|| Pairs {
            rows,
            queries: tokens.count() / rows,
            keys: self.read(tokens) / rows,
            heads: self.num_heads as f64,
            head_dim: self.head_dim,
            dtype: self.stream.dtype,
            float32_logits: self.float32_logits,
            masks,
            bias: (!self.spec.reads_encoding).then_some(bias),
            kernels,
        })
    }

    /// Bytes of scores, weights and their gradients of as many blocks as are computed at once, and of gradients of queries, keys
    /// and values in float32; 0 unless it attends by blocks.
    pub fn passing_of_blocks(&self, tokens: Tokens) -> f64 {
        if !self.is_by_blocks() {
            return 0.0;
        }
        let [rows, length, heads] =
            [tokens.rows, tokens.length, self.num_heads].map(|number| number as f64);
        let (block, keys) = match self.reach.radius() {
            Some(radius) => {
                let block = (radius + 1) as f64;
                (block, 3.0 * block + self.reach.num_beside(length))
            }
            None => (1.0, self.reach.num_keys(length)),
        };
        let of_block = rows * heads * block * keys;
        let of_row = rows * heads * length.max(block) * keys;
        let scores = of_block.max(SCORES_AT_ONCE as f64).min(of_row);
        // With tokens beside the sequence, scores, weights and gradients are there in two parts and as one.
        let copies = if self.reach.tokens_per_block().is_some() { 7.0 } else { 4.0 };
        copies * self.stream.size() * scores + 12.0 * tokens.count() * self.joined() as f64
    }
}

impl Part for Attention {
    fn params(&self, layer: &str) -> Vec<ParamSpec> {
        let (emb_dim, joined) = (self.stream.emb_dim, self.joined());
        let norms = [self.spec.norm(layer)].into_iter().chain(self.side_norm(layer));
        let mut tree: Vec<ParamSpec> =
            norms.flat_map(|path| self.stream.norm_params(&path)).collect();
        let [query, key, value, out] = self.kernels(layer, ["query", "key", "value", "out"]);
        let (of_query, of_key) = ((self.query, self.queries()), (self.others, self.keys()));
        for (spec, (initializer, width)) in [(query, of_query), (key, of_key), (value, of_key)] {
            if width > 0 {
                let (shape, axes) = ([emb_dim, width], ["embed", "joined_kv"]);
                tree.push(kernel(&spec.path, shape, axes, initializer));
                tree.extend(self.stream.bias(&spec.path, width, "joined_kv"));
                let heads = [self.num_heads, self.head_dim];
                tree.extend(spec.scale.map(|scale| scale.param(&heads, &["heads", "kv"])));
            }
        }
        tree.extend(self.stream.bias(&out.path, emb_dim, "embed"));
        tree.push(kernel(&out.path, [joined, emb_dim], ["joined_kv", "embed"], self.others));
        tree.extend(self.cdq_params(layer));
        tree
    }

    fn flops(&self, tokens: Tokens) -> f64 {
        let [rows, length, joined] = [tokens.rows, tokens.length, self.joined()].map(|n| n as f64);
        // Projections of a token: its query and from all heads, and its key and value.
        let [own, read] = [self.queries() + self.joined(), 2 * self.keys()]
            .map(|width| 2.0 * (self.stream.emb_dim * width) as f64);
        let projected = match self.spec.reads_encoding {
            true => tokens.encoding as f64,
            false => length + self.num_beside(tokens),
        };
        // Scores and averages of each query and its keys.
        let pairs = length * self.num_keys(tokens) * 4.0 * joined;
        rows * (own * length + read * projected + pairs) + self.cdq_flops(tokens)
    }

    fn add_work(&self, tokens: Tokens, count: f64, _: PassContext<'_>, work: &mut ForwardWork) {
        let [rows, embed, joined, projected] =
            [tokens.rows, self.stream.emb_dim, self.joined(), self.queries() + 2 * self.keys()]
                .map(|number| number as f64);
        let own = tokens.count();
        match self.spec.reads_encoding {
            // Queries, keys and values of the same inputs are one product.
            false => {
                let beside = rows * self.num_beside(tokens);
                work.project([own + beside, embed, projected], count);
            }
            true => {
                work.project([own, embed, joined], count);
                work.project([tokens.encoded(), embed, 2.0 * joined], count);
            }
        }
        work.project([own, joined, embed], count);
        work.attention_flops += count * 4.0 * own * self.num_keys(tokens) * joined;
        self.add_cdq_work(tokens, count, work);
    }

    /// Counts queries, keys, values, and the joined heads.
    fn kept(&self, tokens: Tokens, _: bool) -> f64 {
        let all = tokens.count() + self.read(tokens);
        let heads = 2.0 * self.stream.size() * all * self.joined() as f64;
        self.stream.norm(tokens) + heads + self.kept_of_cdq(tokens)
    }

    fn kept_of_projections(&self, tokens: Tokens) -> f64 {
        let own = tokens.count() * (self.stream.emb_dim + self.queries()) as f64;
        self.stream.size() * (own + 2.0 * self.read(tokens) * self.keys() as f64)
    }

    /// Counts queries, keys and values of a layer's own inputs, or keys and values of the encoding.
    fn joined_numbers(&self) -> f64 {
        let queries = if self.spec.reads_encoding { 0 } else { self.queries() };
        (self.stream.emb_dim * (queries + 2 * self.keys())) as f64
    }
}
