//! A plan carried out in virtual time: Linux' own TCP in a guest whose clock stands still while it computes.

pub mod archive;
pub mod guest;
pub mod image;
pub mod inside;
pub mod job;
pub mod modules;
pub mod process;
pub mod recipe;
mod sandbox;
