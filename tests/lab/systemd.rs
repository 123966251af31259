//! A stand-in for systemd: notification socket, watchdog and socket activation.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Number of the first passed descriptor, as systemd defines it.
const FIRST_PASSED: RawFd = 3;

/// The socket to which a service reports its state.
pub struct Manager {
    socket: UnixDatagram,
    place: tempfile::TempDir,
}

impl Manager {
    pub fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(place.path().join("notify")).unwrap();
        Manager { socket, place }
    }

    /// Makes a command report its state here, and send watchdog messages if there is a watchdog.
    pub fn manage(&self, command: &mut Command, watchdog: Option<Duration>) {
        command.env("NOTIFY_SOCKET", self.place.path().join("notify"));
        if let Some(limit) = watchdog {
            command.env("WATCHDOG_USEC", limit.as_micros().to_string());
        }
    }

    /// The next notification.
    ///
    /// None: no notification within this time.
    pub fn next(&self, within: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(within)).unwrap();
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

/// A command to which sockets are passed as systemd passes them.
pub fn with_sockets(program: &str, sockets: &[&dyn AsRawFd]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "LISTEN_PID=$$ exec \"$0\" \"$@\"", program]).env("LISTEN_FDS", sockets.len().to_string());
    let passed: Vec<RawFd> = sockets.iter().map(|socket| socket.as_raw_fd()).collect();
    let pass = move || {
        // First moves all descriptors away from the numbers that they will get.
        let mut apart = [-1; 8];
        for (place, &socket) in apart.iter_mut().zip(&passed) {
            // SAFETY: only numbers are passed; the kernel checks them.
            *place = unsafe { libc::fcntl(socket, libc::F_DUPFD, 100) };
        }
        for (number, &socket) in (FIRST_PASSED..).zip(&apart[..passed.len()]) {
            // SAFETY: as above.
            if unsafe { libc::dup2(socket, number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only `fcntl` and `dup2` are called, which are async-signal-safe.
    unsafe { command.pre_exec(pass) };
    command
}
