//! Runs of a scenario in virtual time, in the test's own folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::experiment::{finished, two_links};
use crate::common::{check, stderr, tccc};

/// A folder with a scenario `x.toml` and its results.
pub struct Bench {
    pub folder: tempfile::TempDir,
}

impl Bench {
    pub fn new(scenario: &str) -> Self {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        bench.write("x.toml", scenario);
        bench
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    pub fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, out: &str, arguments: &str) -> Command {
        let mut command = tccc();
        command.args(["run", "--engine", "virtual", "--out"]).arg(self.out(out));
        command.args(arguments.split_whitespace()).arg(self.folder.path().join("x.toml"));
        command
    }

    #[track_caller]
    pub fn runs(&self, out: &str, arguments: &str) -> PathBuf {
        check(0, &mut self.command(out, arguments));
        self.out(out)
    }

    #[track_caller]
    pub fn fails(&self, out: &str, code: i32) -> String {
        stderr(&check(code, &mut self.command(out, "")))
    }
}

/// Two flows over a lossy path: one with this algorithm and one of datagrams.
pub fn scenario(algorithm: &str, loss: &str) -> String {
    format!(
        "title = \"x\"\nclaim = \"y\"\nprofile = \"paper\"\nduration = \"3s\"\nruns = 2\nseed = 16\nsample = \"50ms\"\n{}\n\
         [[flow]]\nname = \"data\"\nfrom = \"a\"\nto = \"c\"\nalgorithm = \"{algorithm}\"\n\n\
         [[flow]]\nname = \"noise\"\nfrom = \"a\"\nto = \"c\"\nprotocol = \"udp\"\nrate = \"1mbit\"\npacket = \"500B\"\n\
         start = \"500ms\"\n",
        two_links(loss)
    )
}

pub fn record(out: &Path) -> Value {
    serde_json::from_slice(&finished(out)[0].1).unwrap()
}
