//! The work of a forward pass on one device, by arithmetic alone: products of matrices, attention, and the bytes
//! that everything else reads and writes. `gimlet plan` turns it into seconds.

/// Products of a matrix of `rows` x `inner` numbers with one of `inner` x `columns`, or of equal parts of its rows with
/// several, which experts have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixProducts {
    /// Tokens.
    pub rows: f64,
    /// Numbers of a token before.
    pub inner: f64,
    /// Numbers of a token after.
    pub columns: f64,
    /// Matrices of `inner` x `columns`.
    pub num_kernels: f64,
    /// Number of such products.
    pub count: f64,
    /// Whether they can be computed in fp8.
    pub is_projection: bool,
}

/// The work of a forward pass over one microbatch.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardWork {
    /// Products of matrices but those inside attention.
    pub products: Vec<MatrixProducts>,
    /// Floating-point operations of scores and averages.
    pub attention_flops: f64,
    /// Bytes that norms, residuals, activations, dropout and the loss read and write.
    pub stream_bytes: f64,
    /// Operations that a device is told to do.
    pub num_operations: f64,
    /// Bytes of an activation.
    pub size: f64,
}

impl MatrixProducts {
    /// Returns the operations of all of them.
    pub fn flops(&self) -> f64 {
        2.0 * self.count * self.rows * self.inner * self.columns
    }

    /// Returns the numbers that one of them reads and writes.
    pub fn numbers(&self) -> f64 {
        self.rows * (self.inner + self.columns) + self.num_kernels * self.inner * self.columns
    }
}

impl ForwardWork {
    /// Nothing, with activations of so many bytes.
    pub fn none(size: f64) -> Self {
        Self {
            products: Vec::new(),
            attention_flops: 0.0,
            stream_bytes: 0.0,
            num_operations: 0.0,
            size,
        }
    }

    /// Adds so many projections of `[rows, inner]` to `[rows, columns]`.
    pub fn project(&mut self, [rows, inner, columns]: [f64; 3], count: f64) {
        let (num_kernels, is_projection) = (1.0, true);
        self.push(MatrixProducts { rows, inner, columns, num_kernels, count, is_projection });
    }

    /// Adds products.
    pub fn push(&mut self, products: MatrixProducts) {
        self.num_operations += products.count;
        self.products.push(products);
    }
}
