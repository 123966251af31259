//! Runs a test in the guest of virtual time, whose kernel has netem.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tccc::scenario::GuestKernel;
use tccc::virtual_time::guest::Guest;
use tccc::virtual_time::image;
use tccc::virtual_time::job::{OUTPUT, Program};
use tccc::virtual_time::process::{Launch, processors};

/// File name of the test program in the folder that the guest shares.
const TEST: &str = "test";
/// Path of the shared folder in the guest.
const SHARED: &str = "/job";
/// The skip log in that folder: needs that the guest lacks.
const SKIPS: &str = "skips";
/// A variable that is set in the guest only.
pub const INSIDE: &str = "TCCC_TEST_INSIDE";
const MEMORY_MB: u32 = 1024;
const TIME_LIMIT: Duration = Duration::from_secs(300);
const SEED: u64 = 16;

/// Runs a test of this test program in the guest. Returns the skip log if the test was skipped there.
///
/// Errors: there is no guest, or it cannot be started.
/// Panics: the test fails in the guest.
pub fn run(test: &str, kernel: GuestKernel) -> anyhow::Result<Option<String>> {
    let guest = Guest::find(kernel)?;
    let image = image::prepare_with(Path::new(super::TCCC), &libraries()?)?;
    let folder = tempfile::tempdir()?;
    fs::copy(std::env::current_exe()?, folder.path().join(TEST))?;
    let program = Program {
        file: TEST.to_owned(),
        arguments: ["--exact", test, "--nocapture", "--test-threads=1"].map(str::to_owned).into(),
        environment: [("TCCC_SKIP_LOG", format!("{SHARED}/{SKIPS}")), (INSIDE, "1".to_owned())]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    };
    program.write(folder.path())?;
    let launch = Launch {
        guest: &guest,
        image: &image.folder,
        folder: folder.path(),
        seed: SEED,
        processor: processors()?[0],
        memory_mb: MEMORY_MB,
        limit: TIME_LIMIT,
    };
    let ended = launch.run(&|| false);
    let said = fs::read_to_string(folder.path().join(OUTPUT)).unwrap_or_default();
    eprintln!("{said}");
    ended.unwrap_or_else(|error| panic!("{test} in the guest of virtual time: {error:#}"));
    assert!(said.contains("1 passed"), "the guest ran {test}");
    Ok(fs::read_to_string(folder.path().join(SKIPS)).ok())
}

/// The shared libraries of the program under test. The test program may not need all of them.
fn libraries() -> anyhow::Result<Vec<PathBuf>> {
    // With this variable, the dynamic loader lists the libraries and does not start the program.
    let told = Command::new(super::TCCC).env("LD_TRACE_LOADED_OBJECTS", "1").output()?;
    let text = String::from_utf8(told.stdout)?;
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}
