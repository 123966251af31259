//! One boot of a guest: its command line, its end, and nothing left of it whatever happens to us.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};

use super::Hardware;
use super::emulator::Emulator;
use super::guest::{self, Job};
use super::kernel::{self, Kernel};
use crate::process;

/// What `timeout` ends with when the limit is over, and when it had to kill.
const OUT_OF_TIME: [i32; 2] = [124, 137];
/// A guest that waits for a processor of its host misses timer interrupts: that is neither a broken timer, over which the
/// kernel would refuse to boot, nor a stall or a lockup, of which it would complain.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 loglevel=5 panic=-1 oops=panic no_timer_check nowatchdog \
                                rcupdate.rcu_cpu_stall_suppress=1";
/// How much of the console is shown when a guest dies.
const CONSOLE_LINES: usize = 20;

/// A guest before it boots.
#[derive(Debug)]
pub struct Machine {
    pub emulator: Emulator,
    pub hardware: Hardware,
}

/// How a guest ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The job ended with this exit code.
    Code(u8),
    /// The limit was over first.
    OutOfTime,
    /// The guest or the emulator died; the end of what they said.
    Died(String),
}

/// A file without a name: QEMU opens it through our own table of open files, and it is gone when we are.
struct Nameless {
    file: File,
}

impl Nameless {
    fn with(content: &[u8]) -> Result<Self> {
        let mut file = tempfile::tempfile_in(kernel::folder()).context("create a file for QEMU")?;
        file.write_all(content).context("write a file for QEMU")?;
        Ok(Nameless { file })
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    fn text(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        self.file.rewind().and_then(|()| self.file.read_to_end(&mut bytes)).context("read what QEMU wrote")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Where QEMU finds the parts of a boot.
pub struct Places<'a> {
    /// The first file system.
    pub first_file_system: &'a str,
    /// Where the kernel's console is written.
    pub console: &'a str,
    /// Where the exit code is written.
    pub code: &'a str,
}

impl Machine {
    /// Boots the kernel and runs the job; its output goes to `stdout` and to our standard error.
    ///
    /// Errors: QEMU cannot be started, or the first file system cannot be made.
    /// Side effects: none that outlive us: every process of it is killed when we die.
    pub fn run(&self, kernel: &Kernel, job: &Job, stdout: &mut dyn Write) -> Result<Ended> {
        let archive = Nameless::with(&guest::first_file_system(kernel, job)?)?;
        let (mut console, mut code) = (Nameless::with(b"")?, Nameless::with(b"")?);
        let (archive_path, console_path, code_path) = (archive.path(), console.path(), code.path());
        let places = Places { first_file_system: &archive_path, console: &console_path, code: &code_path };
        let status = passing_output_on(&mut self.command(kernel, &places), stdout)?;
        if let Ok(code) = code.text()?.trim().parse::<u8>() {
            return Ok(Ended::Code(code));
        }
        if status.code().is_some_and(|code| OUT_OF_TIME.contains(&code)) {
            return Ok(Ended::OutOfTime);
        }
        let said = console.text()?;
        Ok(Ended::Died(format!("QEMU ended with {status}; the console's end:\n{}", last_lines(&said))))
    }

    /// Boots the system on a disk, which sees a folder of the host as `job`; returns what the console said.
    ///
    /// Errors: QEMU cannot be started, or the limit was over.
    /// Side effects: what the guest writes to the disk and to the folder.
    pub fn boot_disk(&self, kernel: &Kernel, disk: &Path, job: &Path) -> Result<String> {
        let archive = Nameless::with(&guest::first_file_system_for_disk(kernel)?)?;
        let mut console = Nameless::with(b"")?;
        let (archive_path, console_path) = (archive.path(), console.path());
        let places = Places { first_file_system: &archive_path, console: &console_path, code: "/dev/null" };
        let mut command = self.command(kernel, &places);
        command.arg("-drive").arg(format!("file={},format=raw,if=virtio,cache=unsafe", disk.display()));
        command.arg("-fsdev").arg(format!("local,id=job,path={},security_model=none", job.display()));
        command.args(["-device", "virtio-9p-pci,fsdev=job,mount_tag=job"]);
        let status = passing_output_on(&mut command, &mut io::stdout())?;
        let said = console.text()?;
        ensure!(status.success(), "QEMU ended with {status}; the console's end:\n{}", last_lines(&said));
        Ok(said)
    }

    /// The command that boots the kernel; `setpriv` has it die with us, `timeout` with the limit.
    pub fn command(&self, kernel: &Kernel, places: &Places) -> Command {
        let seconds = self.hardware.limit.as_secs().max(1).to_string();
        let acceleration = self.hardware.acceleration.resolved();
        let processors = acceleration.processors(self.hardware.processors);
        let mut command = process::program("setpriv");
        command.args(["--pdeathsig", "KILL", "timeout", "--kill-after=5", &seconds, "setpriv", "--pdeathsig", "KILL"]);
        command.arg(&self.emulator.program);
        for folder in &self.emulator.firmware {
            command.arg("-L").arg(folder);
        }
        command.args(["-M", "pc", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(acceleration.arguments());
        command.args(["-smp", &processors.to_string(), "-m", &self.hardware.memory.to_string()]);
        command.args(["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"]);
        command.args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host", "-device", "virtio-serial-pci"]);
        for (number, path) in ["/dev/stdout", "/dev/stderr", places.code].iter().enumerate() {
            command.args(["-chardev", &format!("file,id=port{number},path={path},append=on")]);
            command.args(["-device", &format!("virtserialport,chardev=port{number},nr={}", number + 1)]);
        }
        command.args(["-serial", &format!("file:{}", places.console)]);
        command.arg("-kernel").arg(&kernel.image).args(["-initrd", places.first_file_system]);
        command.args(["-append", KERNEL_ARGUMENTS]);
        command
    }
}

/// The end of what a console said.
pub fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

/// Runs a command; what it says on the way goes to `stdout` and to our standard error.
///
/// Through pipes, for QEMU opens what it writes to a second time: of a file it would overwrite the beginning.
fn passing_output_on(command: &mut Command, stdout: &mut dyn Write) -> Result<ExitStatus> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start QEMU")?;
    let (mut said, mut complained) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    std::thread::scope(|scope| {
        scope.spawn(move || io::copy(&mut complained, &mut io::stderr()));
        io::copy(&mut said, stdout).context("pass the guest's output on")?;
        child.wait().context("wait for QEMU")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::emulator::Acceleration;
    use super::*;

    #[test]
    fn command_line_dies_with_us_and_with_the_limit() {
        let acceleration = Acceleration::Tcg;
        let hardware =
            Hardware { limit: Duration::from_secs(90), memory: 512, processors: 1, acceleration, renew: false };
        let emulator = Emulator { program: "qemu".into(), firmware: Vec::new() };
        let kernel = Kernel { release: "6.12".into(), image: "vmlinuz-6.12".into(), modules: "modules".into() };
        let places = Places { first_file_system: "FIRST-FILE-SYSTEM", console: "CONSOLE", code: "EXIT-CODE" };
        let command = Machine { emulator, hardware }.command(&kernel, &places);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let begin = "setpriv --pdeathsig KILL timeout --kill-after=5 90 setpriv --pdeathsig KILL qemu ";
        assert!(line.starts_with(begin), "{line}");
        for part in ["readonly=on", "-accel tcg", "-smp 1", "-m 512", "vmlinuz-6.12", "-initrd FIRST-FILE-SYSTEM"] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}
