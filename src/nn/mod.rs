//! L3: tensor building blocks shared by models.

pub mod bridge;
