//! sshd.

use std::thread;

use super::*;
use crate::common::need::SSHD;

const UNIT: &str = "ldk_sshd.service";
const PORT: u16 = 7022;

fn key(folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    check(0, Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path));
    path
}

/// Starts a session that repeats what it reads.
fn session(lab: &PolicyLab, key: &Path) -> Owned {
    let mut command = Command::new("ssh");
    command.args(["-F", "none", "-p", &PORT.to_string(), "-i"]).arg(key);
    for option in ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"] {
        command.args(["-o", option]);
    }
    command.args(["root@127.0.0.1", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    lab.inside(|| command.spawn()).unwrap().into()
}

/// Sends bytes through a session and compares what comes back.
#[track_caller]
fn pass(session: &mut Owned, bytes: &[u8]) {
    let (mut to, mut from) = (session.stdin.take().unwrap(), session.stdout.take().unwrap());
    let mut back = vec![0; bytes.len()];
    thread::scope(|scope| {
        scope.spawn(|| to.write_all(bytes).unwrap());
        from.read_exact(&mut back).unwrap();
    });
    assert!(back == bytes, "the session repeats every byte");
    (session.stdin, session.stdout) = (Some(to), Some(from));
}

#[test]
fn sessions_of_sshd_are_reached_and_moved() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, sshd);
    let folder = service_folder();
    let [host, user] = ["host", "user"].map(|name| key(&folder, name));
    let text = format!(
        "ListenAddress 127.0.0.1:{PORT}\nHostKey {}\nAuthorizedKeysFile {}.pub\nPidFile none\nUsePAM no\n\
        StrictModes no\nPermitRootLogin yes\n",
        host.display(),
        user.display()
    );
    let file = write(&folder, "sshd_config", text);
    // sshd needs this folder. The sandbox has its own `/run`.
    fs::create_dir_all("/run/sshd").unwrap();
    let _sshd = Service::start(lab, UNIT, PORT, folder, Command::new(SSHD).args(["-D", "-e", "-f"]).arg(file));
    let mut before = session(lab, &user);
    pass(&mut before, b"first");
    lab.apply(&rule_of(UNIT, "cubic"));
    let mut after = session(lab, &user);
    pass(&mut after, &[7; 1 << 20]);
    let mut found = algorithms_of(lab, &format!("sport = :{PORT}"));
    found.sort();
    assert_eq!(found, ["cubic", "reno"]);
    lab.policy(0, "apply --live", &rule_of(UNIT, "cubic"));
    assert_eq!(algorithms_of(lab, &format!("sport = :{PORT}")), ["cubic", "cubic"]);
    for mut session in [before, after] {
        pass(&mut session, b"last");
        drop(session.stdin.take());
        assert!(session.wait().unwrap().success());
    }
}
