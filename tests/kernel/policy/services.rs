//! Real services under a policy: which of their connections a rule reaches, as `ss` shows it at the server's side.

mod activated;
mod load;
mod protocols;
mod shell;
mod stores;
mod web;

use std::path::PathBuf;
use std::process::Stdio;

use tempfile::TempDir;

use super::*;
use crate::lab::service::{Service, algorithms_of, at_server, connect, listeners, postgresql, service_folder, ss};

/// A rule for everything in the cgroup of a unit.
fn rule_of(unit: &str, algorithm: &str) -> String {
    format!("[[rule]]\nname = \"{unit}\"\nunit = \"{unit}\"\nuse = \"{algorithm}\"\n")
}

fn write(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Sends a message and reads as many bytes as are expected.
#[track_caller]
fn exchange(mut client: &TcpStream, message: &[u8], expected: &[u8]) {
    client.write_all(message).unwrap();
    let mut answer = vec![0; expected.len()];
    client.read_exact(&mut answer).unwrap();
    let wrong = answer.iter().zip(expected).position(|(got, expected)| got != expected);
    assert!(wrong.is_none(), "wrong from byte {wrong:?} on");
}
