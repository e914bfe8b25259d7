//! Compares the model, the loss, the optimizers and decoding with references from other programs.

mod activations;
mod adafactor;
mod adamw;
mod attention;
mod bert;
mod copies;
mod cuda;
mod cudnn;
mod decode;
mod exchanges;
mod fixture;
mod float16;
mod fp8;
mod generate;
mod kernels;
mod layout_attention;
mod lora;
mod loss;
mod members;
mod model;
mod moe;
mod optax_rules;
mod products;
mod prompt_tuning;
mod remat;
#[path = "../gpu/run_of_steps.rs"]
mod run_of_steps;
mod step_graph;
mod t5_experiments;
mod torch_rules;
mod transformers_adafactor;
