//! Kernel ring: algorithms that a user writes outside of `bpf/cc`.

use std::sync::atomic::Ordering::Relaxed;

use tccc::author::compile::BuildFolder;
use tccc::catalog::Algorithm;
use tccc::loader::Request;

use super::*;
use crate::lab::porting::{Fate, PortingPage};
use crate::transfer::lab::{LIMIT, WirePath, carry};

const NAME: &str = "kau_dctcp";
const BYTES: usize = 4 << 20;

/// Compiles a file of `tests/fixtures/author`.
fn fixture(name: &str) -> Algorithm {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/author").join(name);
    let bench = BuildFolder::set_up(&source).unwrap();
    catalog::open(&bench.object(&source, &["-Werror"]).unwrap()).unwrap()
}

/// Both ends use the algorithm, as RFC 8257 wants. An echo of more or fewer marks would change the share of them.
#[test]
fn user_dctcp_of_rfc_8257_loads_and_echoes_each_mark() {
    needs!(root, struct_ops, tun, clang);
    const MARKED_EVERY: u32 = 7;
    let _host = HostSnapshot::take(&[NAME]);
    let algorithm = fixture("rfc8257.bpf.c");
    let request = Request { name: NAME, ..Request::of(&algorithm) };
    let registered = loader::register(&request, &Features::probe().unwrap()).unwrap();

    let path = WirePath::build(&[]);
    path.wire.conditions.marked_every.store(MARKED_EVERY, Relaxed);
    let listener = path.sides[1].run(|| Ok(TcpListener::bind("10.77.0.2:0")?)).unwrap();
    choose(&listener, NAME).unwrap();
    let connection = HeldConnection::between(&path.sides[0], listener, NAME);
    connection.server.set_read_timeout(Some(LIMIT)).unwrap();
    connection.client.set_write_timeout(Some(LIMIT)).unwrap();
    assert_eq!(algorithm_of(&connection.server), NAME);
    carry(&connection, BYTES, |client| assert_eq!(algorithm_of(client), NAME));
    let info = tcp_info(&connection.client);
    let share = f64::from(info.tcpi_delivered_ce) / f64::from(info.tcpi_delivered);
    let marked = 1.0 / f64::from(MARKED_EVERY);
    assert!((0.8 * marked..=1.2 * marked).contains(&share), "{share} of the packets echoed, {marked} marked");
    path.close(connection);
    drop(path);
    registered.unregister().unwrap();
}

/// The window shows whether the program found its storage at every ACK.
#[test]
fn user_algorithm_with_private_storage_finds_it_again() {
    needs!(root, struct_ops, tun, clang);
    const NAME: &str = "kau_stored";
    const WITH_STORAGE_PKTS: u32 = 20;
    let _host = HostSnapshot::take(&[NAME]);
    let algorithm = fixture("stored.bpf.c");
    let request = Request { name: NAME, ..Request::of(&algorithm) };
    let registered = loader::register(&request, &Features::probe().unwrap()).unwrap();
    let path = WirePath::build(&[]);
    let listener = path.sides[1].run(|| Ok(TcpListener::bind("10.77.0.2:0")?)).unwrap();
    let connection = HeldConnection::between(&path.sides[0], listener, NAME);
    connection.server.set_read_timeout(Some(LIMIT)).unwrap();
    connection.client.set_write_timeout(Some(LIMIT)).unwrap();
    carry(&connection, BYTES, |client| assert_eq!(algorithm_of(client), NAME));
    assert_eq!(tcp_info(&connection.client).tcpi_snd_cwnd, WITH_STORAGE_PKTS);
    path.close(connection);
    drop(path);
    registered.unregister().unwrap();
}

#[test]
fn snippets_of_the_porting_page_get_its_message_from_this_verifier() {
    needs!(root, struct_ops, clang);
    let page = PortingPage::read();
    for snippet in page.of(Fate::RefusedByVerifier) {
        snippet.expect_in(&page.check(snippet, "verifier"));
    }
    for snippet in page.of(Fate::Accepted) {
        let said = page.check(snippet, "verifier");
        assert!(said.contains("0 failed, 0 skipped"), "{}{said}", snippet.text);
    }
}

#[test]
#[ignore = "the verifier takes a minute: cargo test --test kernel that_takes_long -- --ignored"]
fn snippet_that_takes_long_gets_its_message_from_this_verifier() {
    needs!(root, struct_ops, clang);
    let page = PortingPage::read();
    page.of(Fate::RefusedSlowly).for_each(|snippet| snippet.expect_in(&page.check(snippet, "verifier")));
}
