//! Runs ns-2 as a process that dies with this one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};

use shared::failure::Failure;
use shared::poll::POLL_INTERVAL;

/// Files in a run's folder: the script, its output, and the messages of ns-2.
pub const SCRIPT: &str = "ns2.tcl";
pub const OUTPUT: &str = "ns2.out";
pub const REMARKS: &str = "ns2.err";
/// The program of the Debian package `ns2`.
const PROGRAM: &str = "ns";

/// The version of ns-2 on this host.
///
/// # Errors
/// It is not installed; the program `ns` is another one.
pub fn version() -> Result<String> {
    let mut command = Command::new(PROGRAM);
    command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let unmet = |what: &str| Failure::unmet(what).hint("`apt-get install ns2`");
    let mut child = match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(unmet("cannot simulate: ns-2 is not installed").into());
        }
        other => other.context("start ns-2")?,
    };
    let mut stdin = child.stdin.take().context("speak to ns-2")?;
    let asked = stdin.write_all(b"puts [ns-version]\nexit 0\n");
    drop(stdin);
    let output = child.wait_with_output().context("ask ns-2 for its version")?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if asked.is_err() || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(unmet(&format!("cannot simulate: the program `{PROGRAM}` of this host is not ns-2")).into());
    }
    Ok(text)
}

/// Killed when dropped, and by the kernel when the thread that started it ends.
struct RunningNs2(Child);

impl Drop for RunningNs2 {
    fn drop(&mut self) {
        let _ = self.0.kill(); // fails if it has ended, which is usual
        let _ = self.0.wait();
    }
}

/// Runs the script in a folder and waits for its end.
///
/// # Errors
/// ns-2 refuses the script; `is_stopped` returned true.
pub fn simulate(folder: &Path, is_stopped: &dyn Fn() -> bool) -> Result<()> {
    let file = |name: &str| File::create(folder.join(name)).context("create a file for ns-2");
    let mut command = Command::new(PROGRAM);
    command.arg(SCRIPT).current_dir(folder).stdin(Stdio::null());
    command.stdout(file(OUTPUT)?).stderr(file(REMARKS)?).process_group(0);
    let parent = std::process::id() as libc::pid_t;
    let die_with_parent = move || {
        // SAFETY: plain system calls; no memory is allocated.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::getppid() != parent {
                libc::_exit(1); // the parent died before prctl took effect
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe system calls only.
    unsafe { command.pre_exec(die_with_parent) };
    let mut simulation = RunningNs2(command.spawn().context("start ns-2")?);
    let status = loop {
        if let Some(status) = simulation.0.try_wait().context("wait for ns-2")? {
            break status;
        }
        ensure!(!is_stopped(), "interrupted");
        thread::sleep(POLL_INTERVAL);
    };
    if status.success() {
        return Ok(());
    }
    let remarks = fs::read_to_string(folder.join(REMARKS)).context("read the remarks of ns-2")?;
    Err(refused(&remarks).into())
}

/// Why ns-2 refused a script: a missing agent, or its own first message.
fn refused(remarks: &str) -> Failure {
    let lacking = remarks.split("invalid command name \"Agent/").nth(1).and_then(|rest| rest.split('"').next());
    if let Some(agent) = lacking {
        let what = format!("cannot simulate: ns-2 has no agent \"{agent}\"");
        return Failure::usage(what).hint("`echo 'puts [Agent/TCP info subclass]' | ns -` lists those it has");
    }
    let said = remarks.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it gave no reason");
    Failure::failed(format!("cannot simulate: ns-2 refused its script: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_that_ns2_lacks_is_named_and_another_refusal_is_told() {
        let lacking = "invalid command name \"Agent/TCP/Nope\"\n    while executing\n\"new Agent/TCP/Nope\"\n";
        for (remarks, what) in [
            (lacking, "ns-2 has no agent \"TCP/Nope\""),
            ("\n out of memory \n", "ns-2 refused its script: out of memory"),
            ("", "ns-2 refused its script: it gave no reason"),
        ] {
            assert_eq!(refused(remarks).what, format!("cannot simulate: {what}"));
        }
    }
}
