//! What tccc changes on this host: registered names, defaults and the policy.

pub mod gate;
pub mod loader;
pub mod policy;
pub mod trial;
