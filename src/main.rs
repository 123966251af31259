//! The `tccc` command: parse, run, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    tccc::cli::main()
}
