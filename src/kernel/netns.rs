//! Network namespaces held by file descriptor: they vanish with the process that holds them.
//!
//! Nothing is bound under `/run/netns`, so a killed process leaves no namespace behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns, unshare};

/// An open network namespace.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    inode: u32,
}

impl Netns {
    /// Creates a new, empty namespace with its loopback interface still down.
    ///
    /// Errors: not permitted (needs CAP_SYS_ADMIN), or out of namespaces.
    /// Side effects: a namespace that lives as long as this value, its clones and processes inside it.
    pub fn create() -> Result<Self> {
        let thread = std::thread::spawn(|| -> Result<OwnedFd> {
            unshare(CloneFlags::CLONE_NEWNET).context("create a network namespace")?;
            Ok(File::open("/proc/thread-self/ns/net").context("open the new namespace")?.into())
        });
        Self::from_fd(thread.join().expect("namespace thread does not panic")?)
    }

    /// The namespace this thread is in.
    ///
    /// Errors: /proc is not mounted.
    pub fn current() -> Result<Self> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// Opens a namespace by the path of its file.
    ///
    /// Errors: no such file, or not a network namespace.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("open the network namespace \"{}\"", path.display()))?;
        Self::from_fd(file.into())
    }

    /// Opens a namespace by what a person has: a path, a process id, or a name of `ip netns`.
    ///
    /// Errors: none of the three exists under that text.
    pub fn find(text: &str) -> Result<Self> {
        if text.contains('/') {
            return Self::open(Path::new(text));
        }
        if text.chars().all(|c| c.is_ascii_digit()) && !text.is_empty() {
            return Self::open(Path::new(&format!("/proc/{text}/ns/net")));
        }
        let named = Path::new("/run/netns").join(text);
        if !named.exists() {
            bail!("no network namespace \"{text}\": not a path, not a process id, not listed by `ip netns`");
        }
        Self::open(&named)
    }

    fn from_fd(fd: OwnedFd) -> Result<Self> {
        let inode = File::from(fd.try_clone().context("copy the namespace descriptor")?).metadata()?.ino();
        Ok(Netns { fd, inode: inode as u32 })
    }

    /// The namespace's inode number, as `lsns` and `/proc/PID/ns/net` show it and events carry it.
    pub fn inode(&self) -> u32 {
        self.inode
    }

    /// Another handle on the same namespace.
    ///
    /// Errors: out of file descriptors.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Netns { fd: self.fd.try_clone().context("copy the namespace descriptor")?, inode: self.inode })
    }

    /// Moves the calling thread into this namespace for good; async-signal-safe, for `pre_exec`.
    ///
    /// Errors: not permitted.
    pub fn enter_for_good(&self) -> io::Result<()> {
        setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }

    /// Runs `work` on a thread of its own inside this namespace; the caller's thread stays where it is.
    ///
    /// Errors: not permitted to enter; otherwise what `work` returns.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter_for_good().context("enter the network namespace")?;
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Netns {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}
