//! Writes to the system's log, also from a service that sees no devices.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process;
use std::time::Duration;

use crate::sanitize::cut;

const JOURNAL: &str = "/run/systemd/journal/socket";
const SYSLOG: &str = "/dev/log";
const KERNEL: &str = "/dev/kmsg";
/// The facility of daemons in syslog, shifted.
const DAEMON: u8 = 3 << 3;
/// Characters. The kernel's log refuses lines of 1,024 bytes.
const LENGTH_MAX: usize = 800;
/// A log that takes no line for this long gets none.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub enum Severity {
    Error = 3,
    Notice = 5,
}

/// Writes one line to the first log that takes it: systemd's journal, syslog, or the kernel's log.
pub fn write(severity: Severity, text: &str) {
    let (level, text) = (severity as u8, cut(text, LENGTH_MAX));
    let is_logged = send(JOURNAL, &format!("PRIORITY={level}\nSYSLOG_IDENTIFIER=tccc\nMESSAGE={text}\n"))
        || send(SYSLOG, &format!("<{}>tccc[{}]: {text}", DAEMON + level, process::id()))
        || fs::write(KERNEL, format!("<{level}>tccc: {text}\n")).is_ok();
    let _ = is_logged; // a host may have no log
}

fn send(place: &str, message: &str) -> bool {
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.send_to(message.as_bytes(), place)
    });
    sent.is_ok()
}
