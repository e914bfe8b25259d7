//! An estimate of the memory that a training step needs on one device, by arithmetic alone.
