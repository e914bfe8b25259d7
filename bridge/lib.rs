//! The C++ and CUDA that `gimlet::nn` calls: see the sources beside this file. Rust declares each function beside the
//! code that calls it.
