//! Redis and PostgreSQL.

use std::io::{BufRead as _, BufReader};
use std::process::ChildStdout;

use nix::unistd::{User, chown};

use super::*;

pub const UNIT: &str = "ldk_store.service";
const REDIS_PORT: u16 = 7379;
const POSTGRESQL_PORT: u16 = 7432;
/// The user whom PostgreSQL's package creates. The server refuses to run as root.
const USER: &str = "postgres";

/// A Redis without files. `before` are words before its command.
pub fn redis(lab: &PolicyLab, before: &[&str], port: u16) -> Service {
    let words = format!("redis-server --bind 127.0.0.1 --port {port} --appendonly no");
    let words: Vec<&str> = before.iter().copied().chain(words.split(' ')).chain(["--save", ""]).collect();
    Service::start(lab, UNIT, port, service_folder(), Command::new(words[0]).args(&words[1..]))
}

/// Writes and reads a value that does not fit into one segment.
#[track_caller]
pub fn set_and_get(client: &TcpStream) {
    let value: String = (0..10_000).map(|number| format!("{number:10}")).collect();
    let bulk = format!("${}\r\n{value}\r\n", value.len());
    exchange(client, format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n{bulk}").as_bytes(), b"+OK\r\n");
    exchange(client, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", bulk.as_bytes());
}

#[test]
fn connections_to_redis_are_reached_and_moved() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, redis);
    let _redis = redis(lab, &[], REDIS_PORT);
    let before = connect(lab, REDIS_PORT);
    lab.apply(&rule_of(UNIT, "cubic"));
    let after = connect(lab, REDIS_PORT);
    let check = |expected: [&str; 2]| {
        [&before, &after].into_iter().for_each(set_and_get);
        assert_eq!([&before, &after].map(|client| at_server(lab, client)), expected);
    };
    check(["reno", "cubic"]);
    lab.policy(0, "apply --live", &rule_of(UNIT, "cubic"));
    check(["cubic", "cubic"]);
}

/// A command that runs as PostgreSQL's user.
fn as_its_user(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(postgresql(program));
    command
}

fn server(lab: &PolicyLab) -> Service {
    let folder = service_folder();
    let user = User::from_name(USER).unwrap().expect("the package creates this user");
    chown(folder.path(), Some(user.uid), Some(user.gid)).unwrap();
    let data = folder.path().join("data");
    let mut create = as_its_user("initdb");
    check(0, create.args(["--no-sync", "--auth=trust", "--no-locale", "-D"]).arg(&data).current_dir(folder.path()));
    let mut command = as_its_user("postgres");
    // It leaves nothing below /dev/shm, even if it is killed.
    command.args(["-F", "-h", "127.0.0.1", "-k", "", "-c", "dynamic_shared_memory_type=mmap", "-p"]);
    Service::start(lab, UNIT, POSTGRESQL_PORT, folder, command.arg(POSTGRESQL_PORT.to_string()).arg("-D").arg(data))
}

/// An open session of psql.
struct Client {
    psql: Owned,
    answers: BufReader<ChildStdout>,
}

impl Client {
    /// Connects as soon as the server accepts sessions. Returns the id of the process that serves this one.
    fn connect(lab: &PolicyLab) -> (Client, String) {
        let mut opened = None;
        poll_until(SOON, "PostgreSQL accepts a session", || {
            let mut client = Self::start(lab);
            let backend = client.ask("select pg_backend_pid()");
            opened = backend.map(|backend| (client, backend));
            opened.is_some()
        });
        opened.expect("it is polled for")
    }

    fn start(lab: &PolicyLab) -> Client {
        let mut command = Command::new(postgresql("psql"));
        command.args(["-XAtq", "-h", "127.0.0.1", "-U", USER, "-p"]).arg(POSTGRESQL_PORT.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut psql = Owned::from(lab.inside(|| command.spawn()).unwrap());
        let answers = BufReader::new(psql.stdout.take().unwrap());
        Client { psql, answers }
    }

    /// None: the session is over.
    fn ask(&mut self, query: &str) -> Option<String> {
        writeln!(self.psql.stdin.as_ref()?, "{query};").ok()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).ok()?;
        answer.strip_suffix('\n').map(str::to_owned)
    }
}

/// The server accepts a connection, and a process that it forks serves it.
#[test]
fn process_that_postgresql_forks_for_a_connection_is_reached() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, postgresql);
    let _server = server(lab);
    let (mut before, first) = Client::connect(lab);
    lab.apply(&rule_of(UNIT, "cubic"));
    let (mut after, second) = Client::connect(lab);
    let mut check = |expected: [&str; 2]| {
        for client in [&mut before, &mut after] {
            assert_eq!(client.ask("select length(repeat('v', 100000))").as_deref(), Some("100000"));
        }
        let of = |backend: &String| algorithm_of_process(lab, backend);
        assert_eq!([&first, &second].map(of), expected);
    };
    check(["reno", "cubic"]);
    lab.policy(0, "apply --live", &rule_of(UNIT, "cubic"));
    check(["cubic", "cubic"]);
}

/// The algorithm of the connection that a process of PostgreSQL serves.
#[track_caller]
fn algorithm_of_process(lab: &PolicyLab, process: &str) -> String {
    let filter = format!("sport = :{POSTGRESQL_PORT}");
    let shown = ss(lab, &format!("-tnpHO state established {filter}"));
    let line =
        shown.lines().find(|line| line.contains(&format!("pid={process},"))).unwrap_or_else(|| panic!("{shown}"));
    let port = line.split_whitespace().nth(3).and_then(|peer| peer.rsplit(':').next()).expect("the peer's address");
    algorithms_of(lab, &format!("{filter} and dport = :{port}")).concat()
}
