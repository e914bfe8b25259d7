//! Heads whose queries depend on the row too (CDQ), beside ordinary heads with which they share keys, values and biases.
//!
//! Each such head averages the row's positions x, and maps this average and a position to the position's query, by kernels
//! that all of them share:
//! `average = softmax(relu(x transform) scores) x`, `query of x = [average, x] mix query`.
//! Source: t5-experiments `modeling_t5.py`, `T5CDQAttention`.

use super::spec::Attention;
use crate::models::parts::{ForwardWork, MatrixProducts, Tokens, kernel};
use crate::nn::ParamSpec;

/// Names of their own kernels.
pub(super) const CDQ_KERNELS: [&str; 4] = ["cdq_transform", "cdq_scores", "cdq_mix", CDQ_QUERY];

/// The kernel whose results are queries.
pub(super) const CDQ_QUERY: &str = "cdq_query";

impl Attention {
    /// Their own kernels in the layer of that path.
    pub(super) fn cdq_params(&self, layer: &str) -> Vec<ParamSpec> {
        if self.num_cdq_heads == 0 {
            return Vec::new();
        }
        let (embed, count) = (self.stream.emb_dim, self.num_cdq_heads);
        let [transform, scores, mix, query] = self.kernels(layer, CDQ_KERNELS);
        let small = self.others.over_sqrt(embed as f64);
        let of_scores = self.others.over_sqrt(count as f64);
        vec![
            kernel(&transform.path, [embed, embed], ["embed", "cdq"], small),
            kernel(&scores.path, [embed, count], ["embed", "cdq"], of_scores),
            kernel(&mix.path, [2 * embed, embed], ["embed", "cdq"], small),
            kernel(&query.path, [embed, self.head_dim], ["embed", "kv"], self.query),
        ]
    }

    /// The products that make their queries.
    fn cdq_products(&self, tokens: Tokens) -> Vec<MatrixProducts> {
        let product = |rows: f64, inner: usize, columns: f64| MatrixProducts {
            rows,
            inner: inner as f64,
            columns,
            num_kernels: 1.0,
            count: 1.0,
            is_projection: false,
        };
        if self.num_cdq_heads == 0 {
            return Vec::new();
        }
        let (own, embed) = (tokens.count(), self.stream.emb_dim);
        let averages = (tokens.rows * self.num_cdq_heads) as f64;
        let [width, heads, head_dim] =
            [embed, self.num_cdq_heads, self.head_dim].map(|number| number as f64);
        vec![
            product(own, embed, width),
            product(own, embed, heads),
            product(averages, tokens.length, width),
            product(2.0 * width, embed, head_dim),
            product(own + averages, embed, head_dim),
        ]
    }

    /// Floating-point operations of these products.
    pub(super) fn cdq_flops(&self, tokens: Tokens) -> f64 {
        self.cdq_products(tokens).iter().map(MatrixProducts::flops).sum()
    }

    /// Adds the work of so many attentions' queries.
    pub(super) fn add_cdq_work(&self, tokens: Tokens, count: f64, work: &mut ForwardWork) {
        for products in self.cdq_products(tokens) {
            work.push(MatrixProducts { count, ..products });
        }
    }

    /// Bytes of the transformed positions, and of scores, weights and their mask.
    pub(super) fn kept_of_cdq(&self, tokens: Tokens) -> f64 {
        if self.num_cdq_heads == 0 {
            return 0.0;
        }
        let numbers = self.stream.emb_dim + 3 * self.num_cdq_heads;
        self.stream.size() * tokens.count() * numbers as f64
    }
}
