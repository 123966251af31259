//! A test program that is interrupted leaves no guard, no default and no name.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use tccc::gate;
use tccc::kernel::cgroup;
use tccc::loader::LoadOptions;

use super::*;
use crate::common::KEPT;
use crate::lab::keeper;
use crate::lab::trial::until_ended;

const GROUP: &str = "ldk_interrupted.slice";

#[test]
fn interrupted_test_program_leaves_nothing() {
    needs!(root, struct_ops, bpffs, cgroup2);
    let folder = tempfile::tempdir().unwrap();
    let before = (default(), available());
    for number in [Signal::SIGINT, Signal::SIGKILL] {
        let mut inner = test_alone(module_path!(), "inner_program");
        inner.arg("--nocapture").env_remove(KEPT).env(keeper::LOCK, folder.path());
        let mut inner = Owned::from(inner.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut said = BufReader::new(inner.stdout.take().unwrap()).lines().map(Result::unwrap);
        let guard =
            said.find_map(|line| line.strip_prefix("guard ")?.parse().ok()).expect("it loads and says its guard");
        assert_eq!(default(), "ldk_default");
        assert!(["ldk_default", "ldk_trial", "ldk_map"].into_iter().all(is_available));
        signal(inner.id(), number);
        inner.wait().unwrap();
        poll_until(SOON, "the keeper has cleaned up", || (default(), available()) == before);
        until_ended(guard);
        let group = cgroup::mount_point().unwrap().join(GROUP);
        poll_until(SOON, "the cgroup is removed", || !group.exists());
    }
}

#[test]
#[ignore = "started by the test above, to be interrupted"]
fn inner_program() {
    let _sandbox = Sandbox::enter();
    let _group = TestCgroup::create(&format!("/{GROUP}/inner.service"));
    run(0, "load dtcp --as ldk_default --default");
    run(0, "load dtcp --as ldk_trial --confirm 10m");
    gate::load(&dtcp_as("ldk_map"), LoadOptions::default(), &without_links()).unwrap();
    println!("\nguard {}", instance("ldk_trial")["confirm_pid"]);
    std::thread::sleep(Duration::from_secs(60)); // until it is killed
}
