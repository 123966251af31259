//! Network namespaces held by file descriptor.
//!
//! A namespace vanishes with its last process or descriptor. Nothing is bound under `/run/netns`, so a killed process
//! leaves none behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{FsType, fstatfs};

use crate::failure::Failure;
use crate::read_limited;

/// The namespace of this thread.
const HERE: &str = "/proc/thread-self/ns/net";
const NSFS_MAGIC: FsType = FsType(libc::NSFS_MAGIC);

/// Names the limit, because the kernel's words for it are those of a full disk.
fn refused(error: Errno) -> anyhow::Error {
    match error {
        Errno::ENOSPC => {
            let failure = Failure::unmet("the host has as many as `user.max_net_namespaces` allows");
            failure.hint("end programs that hold namespaces (`lsns -t net`), or raise the limit with `sysctl`").into()
        }
        other => other.into(),
    }
}

#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    inode: u32,
}

impl Netns {
    /// Creates an empty namespace whose loopback interface is down.
    ///
    /// # Errors
    /// Not permitted (needs CAP_SYS_ADMIN); too many namespaces.
    pub fn create() -> Result<Self> {
        let here = own_namespace()?;
        unshare(CloneFlags::CLONE_NEWNET).map_err(refused).context("create a network namespace")?;
        let _back = Back(here);
        Self::current()
    }

    /// The namespace of this thread.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> Result<Self> {
        Self::open(Path::new(HERE))
    }

    /// # Errors
    /// No such file; not a network namespace.
    pub fn open(path: &Path) -> Result<Self> {
        let file =
            read_limited::open(path).with_context(|| format!("open the network namespace \"{}\"", path.display()))?;
        ensure!(is_network_namespace(&file), "\"{}\" is not a network namespace", path.display());
        let inode = file.metadata()?.ino() as u32;
        Ok(Netns { fd: file.into(), inode })
    }

    /// Opens a namespace by its path, a process id, or its name in `ip netns`.
    ///
    /// # Errors
    /// The text names no network namespace; not permitted.
    pub fn find(text: &str) -> Result<Self, Failure> {
        const LISTS: &str = "`lsns -t net` and `ip netns` list them";
        let is_number = text.chars().all(|c| c.is_ascii_digit());
        let (path, absent) = if text.is_empty() {
            return Err(Failure::usage("an empty text names no network namespace").hint(LISTS));
        } else if text.contains('/') {
            (PathBuf::from(text), format!("no network namespace \"{text}\": no such file"))
        } else if is_number {
            (format!("/proc/{text}/ns/net").into(), format!("no network namespace of process {text}: no such process"))
        } else {
            let why = "not a path, not a process id, not listed by `ip netns`";
            (Path::new("/run/netns").join(text), format!("no network namespace \"{text}\": {why}"))
        };
        Self::open(&path).map_err(|error| match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Failure::usage(absent).hint(LISTS),
            Some(io::ErrorKind::PermissionDenied) => {
                Failure::unmet(format!("cannot open the network namespace \"{text}\": permission denied"))
                    .hint("run it as root")
            }
            _ => Failure::usage(format!("{error:#}")).hint(LISTS),
        })
    }

    /// As in `lsns`, `/proc/PID/ns/net` and events.
    pub fn inode(&self) -> u32 {
        self.inode
    }

    /// The namespace's number in BPF programs. Unlike the inode, it is never reused.
    ///
    /// # Errors
    /// Not permitted to enter; a kernel before 5.14.
    pub fn cookie(&self) -> Result<u64> {
        self.run(|| {
            let socket = UnixDatagram::unbound().context("open a socket in the namespace")?;
            let mut cookie = 0_u64;
            let mut length = size_of::<u64>() as libc::socklen_t;
            // SAFETY: the kernel writes at most `length` bytes to `cookie`, which has that size and outlives the call.
            let result = unsafe {
                let to = (&raw mut cookie).cast();
                libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, to, &raw mut length)
            };
            Errno::result(result).context("read the namespace's cookie")?;
            Ok(cookie)
        })
    }

    /// # Errors
    /// This process has too many open files.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Netns { fd: self.fd.try_clone().context("copy the namespace descriptor")?, inode: self.inode })
    }

    /// Moves the calling thread into this namespace for good. Async-signal-safe, for `pre_exec`.
    ///
    /// # Errors
    /// Not permitted to enter.
    pub fn enter_for_good(&self) -> io::Result<()> {
        setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }

    /// Runs `work` inside this namespace, on the calling thread.
    ///
    /// A new thread would change the memory map of the process. All other threads, also those of links, would wait.
    ///
    /// # Errors
    /// Not permitted to enter; those of `work`.
    pub fn run<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let here = own_namespace()?;
        self.enter_for_good().context("enter the network namespace")?;
        let _back = Back(here); // not before: a thread that may not enter may not return either
        work()
    }
}

/// Returns the thread to its earlier namespace when dropped, also during a panic.
struct Back(File);

fn own_namespace() -> Result<File> {
    File::open(HERE).with_context(|| format!("open \"{HERE}\""))
}

impl Drop for Back {
    fn drop(&mut self) {
        if setns(self.0.as_fd(), CloneFlags::CLONE_NEWNET).is_err() {
            // Otherwise this thread would change the wrong network from now on.
            std::process::abort();
        }
    }
}

fn is_network_namespace(file: &File) -> bool {
    /// `NS_GET_NSTYPE` of linux/nsfs.h.
    const GET_TYPE: libc::Ioctl = 0xb703;
    let is_namespace = fstatfs(file).is_ok_and(|system| system.filesystem_type() == NSFS_MAGIC);
    // SAFETY: the descriptor is open, and this request takes no argument.
    is_namespace && unsafe { libc::ioctl(file.as_raw_fd(), GET_TYPE) } == libc::CLONE_NEWNET
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    /// A process without the right to enter gets an error and stays where it was.
    #[test]
    fn thread_comes_back_also_from_work_that_panics_and_stays_where_it_may_not_go() {
        let home = Netns::current().unwrap().inode();
        if !nix::unistd::geteuid().is_root() {
            assert!(Netns::create().is_err() && Netns::current().unwrap().run(|| Ok(())).is_err());
            return;
        }
        let other = Netns::create().unwrap();
        assert_eq!(Netns::current().unwrap().inode(), home);
        assert_eq!(other.run(|| Ok(Netns::current()?.inode())).unwrap(), other.inode());
        let panicked = std::panic::catch_unwind(|| other.run(|| -> Result<()> { panic!("as it may") }));
        assert!(panicked.is_err() && Netns::current().unwrap().inode() == home);
        assert!(other.run(|| -> Result<()> { anyhow::bail!("as it may") }).is_err());
        assert_eq!(Netns::current().unwrap().inode(), home);
    }

    #[test]
    fn only_a_network_namespace_is_taken_for_one() {
        let own = Netns::open(Path::new("/proc/self/ns/net")).unwrap();
        assert_eq!(own.inode(), Netns::find(&std::process::id().to_string()).unwrap().inode());
        let cases = [
            ("/dev/null", "\"/dev/null\" is not a network namespace"),
            ("/proc/self/ns/uts", "is not a network namespace"),
            ("/proc/self", "is not a network namespace"),
            ("/nowhere/at-all", "no such file"),
            ("4194999", "no network namespace of process 4194999: no such process"),
            ("no-such-name", "not listed by `ip netns`"),
            ("", "an empty text"),
        ];
        for (text, says) in cases {
            let refusal = Netns::find(text).expect_err(text);
            assert_eq!(refusal.kind, FailureKind::Usage, "{refusal}");
            assert!(refusal.what.contains(says), "{text}: {refusal}");
        }
    }
}
