//! Boots a guest. QEMU ends when this process ends, whatever the reason.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};

use super::Hardware;
use super::emulator::Emulator;
use super::guest::{self, GuestJob};
use super::kernel::{self, GuestKernel};
use crate::process::command;

/// Exit codes of `timeout` after the limit, and after `SIGKILL`.
const OUT_OF_TIME: [i32; 2] = [124, 137];
/// On a busy host the guest misses timer interrupts. These arguments keep the kernel from refusing to boot, or reporting a
/// stall or a lockup.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 loglevel=5 panic=-1 oops=panic no_timer_check nowatchdog \
                                rcupdate.rcu_cpu_stall_suppress=1";
/// Lines of the console that an error shows.
const CONSOLE_LINES: usize = 20;

#[derive(Debug)]
pub struct VirtualMachine {
    pub emulator: Emulator,
    pub hardware: Hardware,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Exit code of the job.
    Code(u8),
    OutOfTime,
    /// The guest or QEMU died; the end of the console.
    Died(String),
}

/// An unnamed file, which ends with this process. QEMU opens it through `/proc`.
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

impl VirtualMachine {
    /// Boots the kernel and runs the job. The job's output goes to `stdout` and to this process's stderr.
    pub fn run(&self, kernel: &GuestKernel, job: &GuestJob, stdout: &mut dyn Write) -> Result<Ended> {
        let archive = Nameless::with(&guest::first_file_system(kernel, job)?)?;
        let (mut console, mut code) = (Nameless::with(b"")?, Nameless::with(b"")?);
        let places = [archive.path(), console.path(), code.path()];
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

    /// Boots the system on a disk with a folder of the host as `job`; returns the console's output.
    pub fn boot_disk(&self, kernel: &GuestKernel, disk: &Path, job: &Path) -> Result<String> {
        let archive = Nameless::with(&guest::first_file_system_for_disk(kernel)?)?;
        let mut console = Nameless::with(b"")?;
        let mut command = self.command(kernel, &[archive.path(), console.path(), "/dev/null".to_owned()]);
        command.arg("-drive").arg(format!("file={},format=raw,if=virtio,cache=unsafe", disk.display()));
        command.arg("-fsdev").arg(format!("local,id=job,path={},security_model=none", job.display()));
        command.args(["-device", "virtio-9p-pci,fsdev=job,mount_tag=job"]);
        let status = passing_output_on(&mut command, &mut io::stdout())?;
        let said = console.text()?;
        ensure!(status.success(), "QEMU ended with {status}; the console's end:\n{}", last_lines(&said));
        Ok(said)
    }

    /// The command that boots the kernel. `setpriv` ends QEMU with this process, `timeout` at the limit.
    ///
    /// The paths are those of the initial file system, of the console's output and of the exit code.
    fn command(&self, kernel: &GuestKernel, [first_file_system, console, code]: &[String; 3]) -> Command {
        let acceleration = self.hardware.acceleration.resolved();
        let seconds = self.hardware.limit.as_secs().max(1).to_string();
        let [processors, memory] =
            [acceleration.processors(self.hardware.processors), self.hardware.memory].map(|number| number.to_string());
        let (qemu, image) = (&self.emulator.program, &kernel.image);
        let firmware = self.emulator.firmware.iter().flat_map(|folder| ["-L".as_ref(), folder.as_path()]);
        let mut command = command!(
            "setpriv --pdeathsig KILL timeout --kill-after=5 {seconds} setpriv --pdeathsig KILL {qemu} {firmware...}
             -M pc -nodefaults -no-user-config -display none -no-reboot -smp {processors} -m {memory}
             -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap
             -device virtio-9p-pci,fsdev=host,mount_tag=host -device virtio-serial-pci
             -serial file:{console} -kernel {image} -initrd {first_file_system} -append {KERNEL_ARGUMENTS}"
        );
        command.args(acceleration.arguments());
        for (number, path) in ["/dev/stdout", "/dev/stderr", code].iter().enumerate() {
            command.args(["-chardev", &format!("file,id=port{number},path={path},append=on")]);
            command.args(["-device", &format!("virtserialport,chardev=port{number},nr={}", number + 1)]);
        }
        command
    }
}

/// The last lines of a console.
pub fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

/// Runs a command through pipes: QEMU opens its output again, and would overwrite the beginning of a file.
fn passing_output_on(command: &mut Command, stdout: &mut dyn Write) -> Result<ExitStatus> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start QEMU")?;
    let (mut said, mut complained) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    std::thread::scope(|scope| {
        scope.spawn(move || io::copy(&mut complained, &mut io::stderr()));
        io::copy(&mut said, stdout).context("pass the guest's output on")?;
        child.wait().context("wait for QEMU")
    })
}
