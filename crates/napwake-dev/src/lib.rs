//! The development cluster, image, install, demo, tests and checks.

pub mod bench;
pub mod cargo;
pub mod checks;
pub mod cluster;
pub mod codegen;
pub mod demo;
pub mod digest;
pub mod files;
pub mod helm;
pub mod image;
pub mod install;
pub mod progress;
pub mod run;
pub mod suite;
pub mod target;
pub mod tools;
pub mod user_agents;
pub mod wait;
pub mod workspace;
