//! Access to this host's kernel: what it can do, and the few places that change it.

pub mod bpf;
pub mod bpffs;
pub mod btf;
pub mod cgroup;
pub mod clock;
pub mod congestion;
pub mod device;
pub mod flock;
pub mod io_error;
pub mod iterate;
pub mod libbpf_log;
mod mounts;
pub mod namespaces;
pub mod netlink;
pub mod netns;
pub mod offload;
pub mod privilege;
pub mod probe;
pub mod process;
pub mod socket;
pub mod struct_ops;
pub mod sysctl;
pub mod system_log;
