//! Readiness and watchdog messages to systemd, and the socket that it passes. Does nothing without systemd.

use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::thread;

use anyhow::{Context, Result};
use nix::sys::socket::{getsockopt, sockopt};
use sd_notify::NotifyState;

use shared::failure::Failure;

/// Messages per watchdog interval.
const MESSAGES: u32 = 4;

pub fn ready(status: &str) {
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]); // fails without systemd
}

pub fn stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
}

/// Feeds systemd's watchdog as long as `stalled` returns `None`; otherwise reports the reason.
///
/// Side effects: a thread, if systemd has a watchdog for this process.
pub fn start_watchdog(stalled: impl Fn() -> Option<String> + Send + 'static) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    thread::spawn(move || {
        loop {
            let _ = match stalled() {
                None => sd_notify::notify(&[NotifyState::Watchdog]),
                Some(why) => sd_notify::notify(&[NotifyState::Status(&why)]),
            };
            thread::sleep(limit / MESSAGES);
        }
    });
}

/// The socket passed by systemd, if there is one.
///
/// # Errors
/// More than one; not a listening TCP socket.
pub fn listener() -> Result<Option<TcpListener>> {
    let mut passed = sd_notify::listen_fds().context("read LISTEN_FDS, which systemd sets")?;
    let Some(number) = passed.next() else { return Ok(None) };
    let refuse = |why: &str| Failure::usage(format!("cannot serve on the socket that systemd passes: {why}"));
    if passed.next().is_some() {
        return Err(refuse("there is more than one").hint("write one `ListenStream=` in tccc-serve.socket").into());
    }
    // SAFETY: systemd opened it only for this process, nothing else here uses its number, and this is called once.
    let listener = unsafe { TcpListener::from_raw_fd(number) };
    let is_listening = getsockopt(&listener, sockopt::AcceptConn).unwrap_or(false) && listener.local_addr().is_ok();
    if !is_listening {
        let hint = "write `ListenStream=127.0.0.1:9444` in tccc-serve.socket";
        return Err(refuse("it is not a listening TCP socket").hint(hint).into());
    }
    Ok(Some(listener))
}
