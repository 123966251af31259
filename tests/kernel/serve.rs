//! `tccc serve` on this kernel: its metrics agree with the kernel, and a real Prometheus reads them.

mod arms;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use super::*;
use crate::lab::serve::{Answer, Server};
use crate::lab::socket::path_of;

/// Bytes that a connection of these tests sends.
const BYTES: usize = 4 << 20;

/// Starts a server in a namespace that looks at the sockets with this port.
fn server(netns: &Netns, port: u16, arguments: &[&str]) -> Server {
    let mut command = tccc();
    command.args(["serve", "--sweep", "200ms", "--port", &port.to_string()]).args(arguments);
    netns.run(|| Ok(Server::start(command))).unwrap()
}

fn metrics_server(netns: &Netns, port: u16) -> Server {
    server(netns, port, &["--metrics-only", "--listen", "127.0.0.1:0"])
}

fn listen(netns: &Netns) -> TcpListener {
    netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap()
}

fn ask(netns: &Netns, server: &Server, path: &str, headers: &[&str]) -> Answer {
    netns.run(|| Ok(server.ask(&format!("GET {path} HTTP/1.1"), headers))).unwrap()
}

/// The sum of a metric over its series that have all these labels.
fn sum(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = metrics.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// A scraper that reuses its connection.
struct Scraper(BufReader<TcpStream>);

impl Scraper {
    fn connect(netns: &Netns, server: &Server) -> Scraper {
        Scraper(BufReader::new(netns.run(|| Ok(server.connect())).unwrap()))
    }

    fn scrape(&mut self) -> String {
        write!(self.0.get_mut(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection was closed");
            let line = line.trim().to_lowercase();
            if let Some(given) = line.strip_prefix("content-length: ") {
                length = given.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}

/// Sets how many files a process may open; returns the earlier limit.
fn allow_files(process: u32, files: libc::rlim_t) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let own: *mut libc::rlimit = &mut limit;
    // SAFETY: the kernel writes one rlimit to `own`, which lives on.
    let read = unsafe { libc::prlimit(process as i32, libc::RLIMIT_NOFILE, std::ptr::null(), own) };
    assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
    let wanted = libc::rlimit { rlim_cur: files, ..limit };
    // SAFETY: the kernel reads one rlimit, which lives on, and writes none.
    let set = unsafe { libc::prlimit(process as i32, libc::RLIMIT_NOFILE, &wanted, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    limit.rlim_cur
}

fn scrape(netns: &Netns, server: &Server, what: &str, mut is_so: impl FnMut(&str) -> bool) -> String {
    let mut metrics = String::new();
    poll_until(SOON, what, || {
        metrics = ask(netns, server, "/metrics", &[]).body;
        is_so(&metrics)
    });
    metrics
}

#[test]
fn metrics_of_connections_are_those_of_the_kernel() {
    needs!(root, btf);
    let netns = loopback_netns();
    let mut early = HeldConnection::open(&netns, "cubic");
    early.send(BYTES);
    let server = metrics_server(&netns, early.address.port());
    // The server's end has the algorithm of the host.
    let cubic = ["algorithm=\"cubic\""];
    let found = scrape(&netns, &server, "the open connection", |text| sum(text, "tccc_algorithm_sockets", &[]) == 2.0);
    assert_eq!(sum(&found, "tccc_acked_bytes_total", &[]), 0.0, "earlier bytes are not counted");
    let before = tcp_info(&early.client);
    early.send(BYTES);
    scrape(&netns, &server, "what it sent since", |text| sum(text, "tccc_acked_bytes_total", &cubic) >= BYTES as f64);
    early.client.shutdown(Shutdown::Write).unwrap();
    early.server.shutdown(Shutdown::Write).unwrap();
    let end = scrape(&netns, &server, "the end", |text| sum(text, "tccc_connections_closed_total", &[]) == 2.0);
    let after = tcp_info(&early.client);
    let count = |name: &str| sum(&end, name, &cubic);
    assert_eq!(
        count("tccc_retransmitted_segments_total"),
        f64::from(after.tcpi_total_retrans - before.tcpi_total_retrans)
    );
    let acked = after.tcpi_bytes_acked - before.tcpi_bytes_acked;
    assert!((count("tccc_acked_bytes_total") - acked as f64).abs() <= 2.0, "{acked} and the FINs of both ends");
    assert!(count("tccc_segments_sent_total") >= count("tccc_delivered_segments_total") - 4.0);
    assert!(count("tccc_connection_rtt_seconds_count") >= 1.0 && count("tccc_ca_state_seconds_total") > 0.0);
    assert_eq!((sum(&end, "tccc_uncounted_total", &[]), sum(&end, "tccc_algorithm_sockets", &[])), (0.0, 0.0));
    let port = early.address.port().to_string();
    assert!(!end.contains("127.0.0.1") && !end.contains(&format!("\"{port}\"")), "an address or port is a label");
}

#[test]
fn overview_shows_what_each_algorithm_did_before_the_page_was_opened() {
    needs!(root, btf);
    let netns = loopback_netns();
    let mut connection = HeldConnection::open(&netns, "cubic");
    let server = server(&netns, connection.address.port(), &["--listen", "127.0.0.1:0", "--refresh", "100ms"]);
    let before = tcp_info(&connection.client).tcpi_bytes_acked;
    connection.send(BYTES);
    let acked = |text: &str| sum(text, "tccc_acked_bytes_total", &["algorithm=\"cubic\""]);
    scrape(&netns, &server, "the transfer", |text| acked(text) >= BYTES as f64);
    let sent_bits = (tcp_info(&connection.client).tcpi_bytes_acked - before) as f64 * 8.0;
    let (name, data) = netns.run(|| Ok(server.stream("/api/stream/overview", &[]))).unwrap().next();
    assert_eq!((name.as_str(), &data["step_ms"]), ("overview", &10_000.0.into()));
    let line = |kind: &str, name: &str| {
        let lines = data["series"].as_array().unwrap().iter();
        let named =
            |line: &&serde_json::Value| line["kind"] == kind && line["algorithm"].as_str().unwrap_or("") == name;
        lines.clone().find(named).unwrap_or_else(|| panic!("no {kind} {name} in {data}")).clone()
    };
    let cubic = line("algorithm", "cubic");
    let latest = |column: &str| cubic[column].as_array().unwrap().last().unwrap().clone();
    assert!(latest("sockets").as_u64() >= Some(1));
    assert_eq!(line("host", "")["sockets"].as_array().unwrap().last().unwrap(), 2);
    // Everything was sent within a few sweeps, which are 200 ms to 100 s apart.
    let rates = cubic["goodput_bps"].as_array().unwrap().iter().filter_map(serde_json::Value::as_f64);
    let most = rates.fold(0.0, f64::max);
    assert!((sent_bits / 100.0..sent_bits / 0.19).contains(&most), "{most} bit/s of {sent_bits} bits");
    let srtt_us = f64::from(tcp_info(&connection.client).tcpi_rtt);
    let told = cubic["rtt_p50_us"].as_array().unwrap().iter().find_map(serde_json::Value::as_f64);
    assert!(told.is_some_and(|told| told < 16.0 * srtt_us.max(1000.0)), "{told:?} for {srtt_us} us");
}

/// A connection that begins and ends between two sweeps is counted completely.
#[test]
fn short_connections_are_counted_whole_and_no_event_is_sent() {
    needs!(root, btf);
    let netns = loopback_netns();
    let listener = listen(&netns);
    let port = listener.local_addr().unwrap().port();
    let files = |server: &Server| {
        let entries = std::fs::read_dir(format!("/proc/{}/fdinfo", server.process.id())).unwrap().flatten();
        entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect::<Vec<_>>()
    };
    let server = metrics_server(&netns, port);
    assert!(!files(&server).iter().any(|text| text.contains("map_type:\t27")), "there is a ring for events");
    for _ in 0..20 {
        let listener = listener.try_clone().unwrap();
        HeldConnection::between(&netns, listener, "cubic").send(10_000);
    }
    let end =
        scrape(&netns, &server, "the connections", |text| sum(text, "tccc_connections_closed_total", &[]) >= 40.0);
    assert_eq!(sum(&end, "tccc_connections_opened_total", &[]), 40.0);
    assert!(sum(&end, "tccc_connections_opened_total", &["algorithm=\"cubic\""]) >= 20.0);
    let received = sum(&end, "tccc_received_bytes_total", &[]);
    assert!((200_000.0..200_100.0).contains(&received), "{received} bytes");
}

/// Counts of a removed cgroup were once deleted before they were shown.
#[test]
fn connections_of_a_removed_cgroup_stay_counted() {
    needs!(root, btf, cgroup2);
    if let Some(cgroup) = std::env::var_os("TCCC_SERVE_CGROUP") {
        group::join(cgroup.as_ref());
        let address = format!("127.0.0.1:{}", std::env::var("TCCC_SERVE_PORT").unwrap());
        HeldConnection::open_at(&loopback_netns(), "reno", &address).send(BYTES);
        return;
    }
    let _host = HostSnapshot::take(&["tccc-serve"]);
    let netns = loopback_netns();
    // The connections are in namespaces of their own but use this port too.
    let port = listen(&netns).local_addr().unwrap().port();
    let server = metrics_server(&netns, port);
    let acked = |text: &str| sum(text, "tccc_acked_bytes_total", &["algorithm=\"reno\""]);
    for n in 1..=3 {
        let cgroup = TestCgroup::create(&format!("/tccc-serve-{}-{n}", std::process::id()));
        let mut test = test_alone(module_path!(), "connections_of_a_removed_cgroup_stay_counted");
        check(0, test.env("TCCC_SERVE_CGROUP", cgroup.path()).env("TCCC_SERVE_PORT", port.to_string()));
        drop(cgroup);
        scrape(&netns, &server, "what it sent", |text| acked(text) >= (n * BYTES) as f64);
    }
    let mut sweeps = std::collections::BTreeSet::new();
    scrape(&netns, &server, "twenty sweeps", |text| {
        assert!(acked(text) >= (3 * BYTES) as f64, "counts are lost:\n{text}");
        assert_eq!(sum(text, "tccc_uncounted_total", &[]), 0.0);
        // Two sweeps hardly ever take the same time to the nanosecond.
        sweeps.insert(sum(text, "tccc_sweep_duration_seconds", &[]).to_bits());
        sweeps.len() >= 20
    });
}

/// The first sweep without free descriptors once ended the server.
#[test]
fn sweep_without_free_descriptors_is_repeated() {
    needs!(root, btf);
    let netns = loopback_netns();
    let mut connection = HeldConnection::open(&netns, "cubic");
    let mut server = metrics_server(&netns, connection.address.port());
    let mut scraper = Scraper::connect(&netns, &server);
    let failed = |text: &str| sum(text, "tccc_failed_sweeps_total", &[]);
    assert_eq!(failed(&scraper.scrape()), 0.0);
    let files = allow_files(server.process.id(), 3); // these are open already
    poll_until(SOON, "two sweeps fail", || failed(&scraper.scrape()) >= 2.0);
    let shown = scraper.scrape();
    assert_eq!(sum(&shown, "tccc_algorithm_sockets", &[]), 2.0, "the last values stay:\n{shown}");
    allow_files(server.process.id(), files);
    connection.send(BYTES);
    let acked = |text: &str| sum(text, "tccc_acked_bytes_total", &["algorithm=\"cubic\""]);
    poll_until(SOON, "later sweeps count what was sent", || acked(&scraper.scrape()) >= BYTES as f64);
    assert!(server.process.try_wait().unwrap().is_none(), "it ended: {}", server.said());
}

#[test]
fn prometheus_accepts_and_scrapes_the_metrics() {
    needs!(root, btf, prometheus);
    let netns = loopback_netns();
    let mut connection = HeldConnection::open(&netns, "reno");
    let server = metrics_server(&netns, connection.address.port());
    connection.send(BYTES);
    let sent = |text: &str| sum(text, "tccc_segments_sent_total", &["algorithm=\"reno\""]) > 0.0;
    let metrics = scrape(&netns, &server, "the transfer", sent);
    let mut promtool = begin(Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()));
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    assert_eq!(end(0, promtool).stderr(), "");
    let openmetrics = ask(&netns, &server, "/metrics", &["Accept: application/openmetrics-text; version=1.0.0"]);
    assert!(
        openmetrics.head.contains("application/openmetrics-text") && openmetrics.body.trim_end().ends_with("# EOF")
    );
    let folder = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(&netns, &server, folder.path());
    let query = "/api/v1/query?query=tccc_segments_sent_total%7Balgorithm%3D%22reno%22%7D";
    let mut answer = String::new();
    poll_until(SOON, "Prometheus has scraped the server", || {
        answer = prometheus.ask(&netns, query).unwrap_or_default();
        answer.contains("tccc_segments_sent_total")
    });
    assert!(answer.contains("\"algorithm\":\"reno\"") && answer.contains("\"job\":\"tccc\""), "{answer}");
}

/// A Prometheus that scrapes one server. It is killed when dropped.
struct Prometheus {
    _process: Owned,
    port: u16,
}

impl Prometheus {
    fn start(netns: &Netns, server: &Server, folder: &Path) -> Prometheus {
        let config = folder.join("prometheus.yml");
        let target = server.address;
        let job = format!("job_name: tccc\n    static_configs:\n      - targets: ['{target}']\n");
        std::fs::write(&config, format!("global:\n  scrape_interval: 1s\nscrape_configs:\n  - {job}")).unwrap();
        let port = listen(netns).local_addr().unwrap().port();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        Prometheus { _process: netns.run(|| Ok(begin_quietly(command.stdin(Stdio::null())))).unwrap(), port }
    }

    fn ask(&self, netns: &Netns, path: &str) -> Option<String> {
        let mut stream = netns.run(|| Ok(TcpStream::connect(("127.0.0.1", self.port))?)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }
}

#[test]
fn other_addresses_than_loopback_need_the_printed_token() {
    needs!(root, btf);
    let netns = loopback_netns();
    let server = server(&netns, 1, &["--metrics-only", "--listen", "0.0.0.0:0"]);
    poll_until(SOON, "the token is printed", || server.said().contains("Authorization: Bearer "));
    let said = server.said();
    assert!(said.contains("plain HTTP is not private"), "{said}");
    let token = said.split("Authorization: Bearer ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    assert_eq!(ask(&netns, &server, "/metrics", &[]).status, 401);
    assert_eq!(ask(&netns, &server, "/metrics", &["Authorization: Bearer 0123456789abcdef"]).status, 401);
    let shown = ask(&netns, &server, "/metrics", &[&format!("Authorization: Bearer {token}")]);
    assert_eq!((shown.status, shown.body.contains("tccc_build_info")), (200, true));
    let page = ask(&netns, &server, "/", &[]);
    assert_eq!((page.status, page.body.contains("metrics-only")), (404, true));
}

#[test]
fn page_shows_connections_as_they_are() {
    needs!(root, btf);
    let netns = loopback_netns();
    let mut connection = HeldConnection::open(&netns, "cubic");
    let local = connection.client.local_addr().unwrap().to_string();
    let port = connection.address.port();
    let server = server(&netns, port, &["--listen", "127.0.0.1:0", "--refresh", "100ms", "--interval", "10ms"]);
    let stream = |path: &str| netns.run(|| Ok(server.stream(path, &[]))).unwrap();
    let mut events = stream("/api/stream/sockets");
    let mut cookie = None;
    poll_until(SOON, "the connection is in the table", || {
        connection.send(10_000);
        let (_, data) = events.next();
        let names = data["names"].as_array().unwrap();
        cookie = names.iter().find(|name| name[3] == local.as_str()).map(|name| name[1].as_str().unwrap().to_owned());
        cookie.is_some()
    });
    let mut flow = stream(&format!("/api/stream/flow/{}", cookie.unwrap()));
    poll_until(SOON, "the acknowledged bytes are on its page", || {
        let (_, data) = flow.next();
        connection.send(10_000);
        data["socket"]["bytes_acked"].as_u64() > Some(20_000)
    });
}
