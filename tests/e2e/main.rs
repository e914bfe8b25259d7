//! `gimlet train`, `gimlet eval` and `gimlet infer` as users type them: their results, their files, their
//! errors.

mod answer_sets;
mod arrays;
mod bad_input;
mod bench;
mod bert_folder;
mod browser;
mod buckets;
mod cache;
mod chromium;
mod classes;
mod command;
mod evaluate;
mod events;
mod fill;
mod finetune;
mod float16;
mod folder;
mod fp8;
mod generate;
#[allow(dead_code, reason = "tests of the language use all of it")]
#[path = "../language/golden.rs"]
mod golden;
mod gpu_recipes;
mod hugging_face_config;
mod infer;
mod kills;
mod launch;
mod lora;
mod machines;
mod mesh_tf;
mod meshes;
mod microbatches;
mod moe;
mod more_pieces;
mod my_gimlet;
mod network;
mod openai;
mod own_task;
mod packed_blocks;
mod pages;
mod pictures;
mod plan;
#[path = "../language/play.rs"]
mod play;
mod processes;
mod prompt;
mod published_runs;
mod remat;
mod resume;
mod ro_diacritics;
#[allow(dead_code, reason = "tests of tidiness use all of it")]
#[path = "../tidy/run_commands.rs"]
mod run_commands;
#[path = "../pipeline/storage/s3.rs"]
mod s3;
mod seeded;
mod serve;
#[allow(dead_code, reason = "tests of storage use all of it")]
#[path = "../pipeline/storage/server.rs"]
mod server;
mod soft_prompt;
mod sweep;
mod t0;
mod t5_experiments;
mod t5_mesh_transformer;
mod t5_paper;
mod t5x;
mod trainer_files;
