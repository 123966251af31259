//! MPTCP, and TLS in the kernel.

use std::os::fd::{FromRawFd as _, OwnedFd};

use nix::sys::socket::sockopt::{ReuseAddr, TcpTlsRx, TcpTlsTx, TcpUlp, TlsCryptoInfo};
use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect as connect_socket, listen, setsockopt};

use super::stores::{UNIT, redis, set_and_get};
use super::*;

const PORT: u16 = 7380;
/// The client's second address, over which MPTCP joins another subflow.
const SECOND: &str = "10.77.0.1";

fn mptcp_socket() -> OwnedFd {
    // SAFETY: only numbers are passed.
    let number = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::IPPROTO_MPTCP) };
    assert!(number >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: nothing else owns the descriptor.
    unsafe { OwnedFd::from_raw_fd(number) }
}

fn connect_mptcp(lab: &PolicyLab) -> TcpStream {
    let client: TcpStream = lab.inside(mptcp_socket).into();
    connect_socket(client.as_raw_fd(), &SockaddrStorage::from(SocketAddr::from(([127, 0, 0, 1], PORT)))).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    client
}

/// The algorithms of a connection at the server: of its first subflow, and of one that joins now.
#[track_caller]
fn subflows(lab: &PolicyLab, client: &TcpStream) -> [String; 2] {
    lab.ip(&format!("mptcp endpoint add {SECOND} id 1 dev lo subflow"));
    let joined = || algorithms_of(lab, &format!("sport = :{PORT} and dst {SECOND}"));
    poll_until(SOON, "the second subflow joins", || joined().len() == 1);
    let found = [at_server(lab, client), joined().concat()];
    lab.ip("mptcp endpoint delete id 1");
    poll_until(SOON, "the second subflow ends", || joined().is_empty());
    found
}

/// Both ends are in one namespace. So the server also tries to join a subflow, and the limit counts its attempt.
fn allow_more_subflows(lab: &PolicyLab) {
    lab.ip(&format!("address add {SECOND}/32 dev lo"));
    lab.ip("mptcp limits set subflow 2");
}

/// Redis sets options of the connections that it accepts.
#[test]
fn later_subflow_of_redis_is_reached_only_by_override() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, redis, mptcp, mptcpize);
    let _redis = redis(lab, &["mptcpize", "run"], PORT);
    allow_more_subflows(lab);
    for (more, joined, chosen) in [("", "reno", 1), ("override = true\n", "cubic", 0)] {
        let rule = format!("{}{more}", rule_of(UNIT, "cubic"));
        lab.apply(&rule);
        let client = connect_mptcp(lab);
        set_and_get(&client);
        assert!(ss(lab, &format!("-tinHO sport = :{PORT}")).contains("tcp-ulp-mptcp"), "it is not plain TCP");
        assert_eq!(subflows(lab, &client), ["cubic", joined], "{more}");
        assert_eq!(count(&show(), 0, 0, "chosen"), chosen, "{more}");
        set_and_get(&client);
    }
}

/// MPTCP then copies the options of its own socket to each later subflow, the algorithm among them.
#[test]
fn option_that_a_program_sets_takes_later_subflows_of_mptcp_from_the_policy() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, mptcp);
    allow_more_subflows(lab);
    let listener = lab.inside(|| {
        let socket = mptcp_socket();
        setsockopt(&socket, ReuseAddr, &true).unwrap();
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::from(([127, 0, 0, 1], PORT)))).unwrap();
        listen(&socket, Backlog::new(8).unwrap()).unwrap();
        TcpListener::from(socket)
    });
    lab.apply(&all("cubic"));
    for (sets_one, joined) in [(false, "cubic"), (true, "reno")] {
        let client = connect_mptcp(lab);
        let server = listener.accept().unwrap().0;
        if sets_one {
            server.set_nodelay(true).unwrap();
        }
        (&server).write_all(b"ready").unwrap();
        exchange(&client, b"go", b"ready");
        (&server).read_exact(&mut [0; 2]).unwrap();
        assert_eq!(subflows(lab, &client), ["cubic", joined], "an option is set: {sets_one}");
    }
}

/// Both ends get the same key, so no handshake is needed.
fn encrypt(pair: &SocketPair) {
    let key = TlsCryptoInfo::Aes128Gcm(libc::tls12_crypto_info_aes_gcm_128 {
        info: libc::tls_crypto_info { version: libc::TLS_1_2_VERSION, cipher_type: libc::TLS_CIPHER_AES_GCM_128 },
        iv: [1; 8],
        key: [2; 16],
        salt: [3; 4],
        rec_seq: [0; 8],
    });
    for end in [&pair.client, &pair.server] {
        setsockopt(end, TcpUlp::default(), b"tls").unwrap();
        setsockopt(end, TcpTlsTx, &key).unwrap();
        setsockopt(end, TcpTlsRx, &key).unwrap();
    }
}

/// The kernel lets BPF programs set options of plain TCP sockets only. TLS replaces the socket's functions.
#[test]
fn connection_that_the_kernel_encrypts_is_reached_but_not_moved() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, ktls);
    let rule = "[[rule]]\nname = \"lab\"\nnetns = \"ldk_lab\"\nuse = \"cubic\"\n";
    let mut before = lab.plain();
    encrypt(&before);
    lab.apply(rule);
    let mut after = lab.plain();
    encrypt(&after);
    let mut check = || {
        assert_eq!([&before, &after].map(SocketPair::algorithms), [["reno", "reno"], ["cubic", "cubic"]]);
        [&mut before, &mut after].into_iter().for_each(|pair| pair.exchange(100_000));
    };
    check();
    lab.policy(0, "apply --live", rule).stdout_has("\nopen connections: 2 that the kernel refused to move\n");
    check();
    run(0, "policy remove --live").stdout_has("\nopen connections: 2 that the kernel refused to move\n");
    check();
}
