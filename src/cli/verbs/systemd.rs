//! Readiness and signs of life for systemd, and the sockets that it passes. Without systemd nothing happens.

use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::thread;

use anyhow::{Context, Result};
use nix::sys::socket::{getsockopt, sockopt};
use sd_notify::NotifyState;

use crate::failure::Failure;

/// Signs of life in the time that the watchdog gives.
const SIGNS: u32 = 4;

/// Says that the work has begun, and what it is.
pub fn ready(status: &str) {
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]); // nobody listens without systemd
}

pub fn stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
}

/// Gives signs of life as long as the work goes on; `stalled` says why it does not.
///
/// Side effects: a thread, where systemd has a watchdog for this process.
pub fn give_signs(stalled: impl Fn() -> Option<String> + Send + 'static) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    thread::spawn(move || {
        loop {
            let _ = match stalled() {
                None => sd_notify::notify(&[NotifyState::Watchdog]),
                Some(why) => sd_notify::notify(&[NotifyState::Status(&why)]),
            };
            thread::sleep(limit / SIGNS);
        }
    });
}

/// The socket that systemd listens on for us.
///
/// None: it passes none.
///
/// Errors: more than one; one that is not a listening TCP socket.
pub fn listener() -> Result<Option<TcpListener>> {
    let mut passed = sd_notify::listen_fds().context("read LISTEN_FDS, which systemd sets")?;
    let Some(number) = passed.next() else { return Ok(None) };
    let refuse = |why: &str| Failure::usage(format!("cannot serve on the socket that systemd passes: {why}"));
    if passed.next().is_some() {
        return Err(refuse("there is more than one").hint("write one `ListenStream=` in tccc-serve.socket").into());
    }
    // SAFETY: systemd opened it for this process alone, nobody else here uses its number, and this is called once.
    let listener = unsafe { TcpListener::from_raw_fd(number) };
    let is_listening = getsockopt(&listener, sockopt::AcceptConn).unwrap_or(false) && listener.local_addr().is_ok();
    if !is_listening {
        return Err(refuse("it is not a listening TCP socket")
            .hint("write `ListenStream=127.0.0.1:9444` in tccc-serve.socket")
            .into());
    }
    Ok(Some(listener))
}
