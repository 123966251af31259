//! A program in a pseudo-terminal, and the screen of that terminal.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use nix::sys::termios::{Termios, tcgetattr};

use crate::common::{Owned, SOON, TCCC, poll_until, signal, test_alone};

pub struct Session {
    child: Owned,
    terminal: File,
    /// Keeps the terminal open after the program has ended.
    _other_end: File,
    before: Termios,
    parser: vt100::Parser,
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Session {
    pub fn start(columns: u16, rows: u16, arguments: &[&str]) -> Self {
        let mut command = Command::new(TCCC);
        command.args(arguments);
        Self::start_command(columns, rows, command)
    }

    pub fn start_test(columns: u16, rows: u16, [module, test]: [&str; 2]) -> Self {
        let mut command = test_alone(module, test);
        command.arg("--nocapture").env("RUST_BACKTRACE", "0");
        Self::start_command(columns, rows, command)
    }

    pub fn start_command(columns: u16, rows: u16, mut command: Command) -> Self {
        let pty = openpty(&size(columns, rows), None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").stdin(end()).stdout(end()).stderr(end());
        // SAFETY: between fork and exec only two system calls are made, on descriptors that are open.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                if libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap().into();
        fcntl(&pty.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        // SAFETY: the descriptor is owned and given away.
        let terminal = unsafe { File::from_raw_fd(pty.master.into_raw_fd()) };
        let parser = vt100::Parser::new(cells(rows), cells(columns), 0);
        Session { child, terminal, _other_end: pty.slave.into(), before, parser }
    }

    fn read(&mut self) {
        let mut bytes = [0; 1 << 16];
        loop {
            match self.terminal.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => self.parser.process(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return,
                Err(error) => panic!("read the terminal: {error}"),
            }
        }
    }

    pub fn screen(&mut self) -> String {
        self.read();
        let (_, columns) = self.parser.screen().size();
        self.parser.screen().rows(0, columns.get()).collect::<Vec<_>>().join("\n")
    }

    pub fn has_colour(&mut self) -> bool {
        self.read();
        let screen = self.parser.screen();
        let (rows, columns) = screen.size();
        let mut places = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        places.any(|(row, column)| {
            let cell = screen.cell(row, column);
            cell.is_some_and(|it| it.fgcolor() != vt100::Color::Default || it.bgcolor() != vt100::Color::Default)
        })
    }

    pub fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        poll_until(SOON, what, || is_so(&self.screen()));
    }

    pub fn send(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        let size = size(columns, rows);
        // SAFETY: TIOCSWINSZ reads one winsize, which lives through the call.
        let answer = unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(answer, 0);
        self.parser.set_size(cells(rows), cells(columns));
    }

    pub fn signal(&mut self, number: Signal) {
        signal(self.child.id(), number);
    }

    /// Whether the program uses the alternate screen and reads single keys.
    pub fn is_taken(&mut self) -> bool {
        self.parser.screen().alternate_screen() && !self.is_as_before()
    }

    fn is_as_before(&self) -> bool {
        let now = tcgetattr(&self.terminal).unwrap();
        (now.local_flags, now.input_flags, now.output_flags)
            == (self.before.local_flags, self.before.input_flags, self.before.output_flags)
    }

    /// Waits for the program's end, checks that it restored the terminal, and returns its exit code.
    pub fn end(&mut self) -> Option<i32> {
        let mut status = None;
        poll_until(SOON, "the end of the program", || {
            self.read();
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.read();
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "the screen was not restored");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None, "the mouse was not released");
        assert!(self.is_as_before(), "the modes of the terminal were not restored");
        status.unwrap().code()
    }
}
