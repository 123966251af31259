//! A test in the guest of virtual time, whose kernel has what this host's lacks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tccc::virtual_time::guest::Guest;
use tccc::virtual_time::image;
use tccc::virtual_time::job::{OUTPUT, Program};
use tccc::virtual_time::process::{Launch, processors};

/// What the test's program is called in the folder that the guest shares.
const TEST: &str = "test";
/// Where the guest has that folder.
const SHARED: &str = "/job";
/// Its needs that the guest lacks.
const SKIPS: &str = "skips";
/// Set in the guest.
pub const INSIDE: &str = "TCCC_TEST_INSIDE";
/// Memory of the guest, megabytes.
const MEMORY_MB: u32 = 1024;
/// Real time that a test may take on a busy host.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of everything random in the guest.
const SEED: u64 = 16;

/// Runs a test of this very program in the guest; what it lacks there, where it was skipped.
///
/// Errors: there is no guest, or it cannot be started.
/// Panics: when the test fails there.
pub fn run(test: &str) -> anyhow::Result<Option<String>> {
    let guest = Guest::find()?;
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
        image: &image.file,
        folder: folder.path(),
        seed: SEED,
        processor: processors()?[0],
        memory_mb: MEMORY_MB,
        limit: PATIENCE,
    };
    let ended = launch.run(&|| false);
    let said = fs::read_to_string(folder.path().join(OUTPUT)).unwrap_or_default();
    eprintln!("{said}");
    ended.unwrap_or_else(|error| panic!("{test} in the guest of virtual time: {error:#}"));
    assert!(said.contains("1 passed"), "the guest ran {test}");
    Ok(fs::read_to_string(folder.path().join(SKIPS)).ok())
}

/// The libraries of the program under test, of which this one may lack some.
fn libraries() -> anyhow::Result<Vec<PathBuf>> {
    // The loader itself says which, and starts nothing.
    let told = Command::new(super::TCCC).env("LD_TRACE_LOADED_OBJECTS", "1").output()?;
    let text = String::from_utf8(told.stdout)?;
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}
