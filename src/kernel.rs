//! What this host can do and the few places where it is changed.

pub mod cgroup;
pub mod netlink;
pub mod netns;
pub mod offload;
pub mod sysctl;
