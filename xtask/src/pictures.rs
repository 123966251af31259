//! Makes the README's pictures from a recording in the tree: the page of `tccc serve` and the screen of `tccc top`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup::{self, SetupPurpose};
use crate::{process, web};

mod screen;

const FOLDER: &str = "xtask/pictures";
const RECORDING: &str = "tests/fixtures/recording-format-1.tccc";
/// Largest size of a picture, bytes.
const LARGEST: u64 = 150_000;
const COLUMNS: u16 = 112;
const ROWS: u16 = 24;
/// Stops the replay, seeks to nine tenths and on to the end, selects the first row, and quits.
const KEYS: [&str; 5] = [" ", "9", "}}", "g", "q"];
/// Time in which the dashboard answers a key: more than its refresh interval.
const ANSWER: Duration = Duration::from_millis(1500);

/// `cargo xtask pictures`. Errors: Chromium or npm is missing; a picture is too large.
pub fn run() -> Result<()> {
    setup::set_up(SetupPurpose::Web)?;
    web::bundle_if_possible();
    process::build_tccc()?;
    page()?;
    terminal()?;
    for entry in fs::read_dir(process::workspace().join(FOLDER)).with_context(|| format!("list {FOLDER}"))? {
        let entry = entry.with_context(|| format!("list {FOLDER}"))?;
        let bytes = entry.metadata().context("measure a picture")?.len();
        if bytes > LARGEST {
            bail!("{} has {bytes} bytes, at most {LARGEST}", entry.path().display());
        }
    }
    Ok(())
}

/// Makes pictures of the flow view in Chromium, dark and light.
fn page() -> Result<()> {
    let packages = web::install(web::TESTS, "tests")?;
    let mut node = process::program("node");
    node.arg(format!("{FOLDER}/page.mjs"))
        .env("TCCC", process::tccc())
        .env("RECORDING", RECORDING)
        .env("PICTURES", FOLDER);
    process::run("pictures", node.env("PACKAGES", packages.join("node_modules")))
}

/// Makes the picture of the table of sockets, in a terminal that `script` creates.
fn terminal() -> Result<()> {
    let command =
        format!("stty cols {COLUMNS} rows {ROWS}; exec {} top --replay {RECORDING}", process::tccc().display());
    let mut script = process::program("script");
    script.args(["--quiet", "--flush", "--command", &command, "/dev/null"]);
    script.env("TERM", "xterm-256color").env_remove("NO_COLOR").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().context("start `script`, which makes a terminal")?;
    let (mut keyboard, mut output) = child.stdin.take().zip(child.stdout.take()).context("connect to the terminal")?;
    let typist = thread::spawn(move || {
        for keys in KEYS {
            thread::sleep(ANSWER);
            keyboard.write_all(keys.as_bytes())?;
        }
        Ok::<_, std::io::Error>(keyboard) // open until the dashboard has ended
    });
    let mut written = Vec::new();
    output.read_to_end(&mut written).context("read the terminal")?;
    let _keyboard = typist.join().ok().context("type")?.context("type")?;
    child.wait().context("wait for `script`")?;
    let picture = screen::svg(&shown(&written));
    fs::write(process::workspace().join(FOLDER).join("top.svg"), picture).context("write the picture of the terminal")
}

/// The screen before the dashboard restores the terminal.
fn shown(written: &[u8]) -> vt100::Parser {
    const LEAVES: &[u8] = b"\x1b[?1049l";
    let end = written.windows(LEAVES.len()).rposition(|bytes| bytes == LEAVES).unwrap_or(written.len());
    let size = |cells: u16| NonZeroU16::new(cells).unwrap_or(NonZeroU16::MIN);
    let mut parser = vt100::Parser::new(size(ROWS), size(COLUMNS), 0);
    parser.process(&written[..end]);
    parser
}
