//! `bpf/PORTING.md`: compilers and `tccc check` say what the page states, and its example is the code of a test.

use std::fs;

use crate::common::needs;
use crate::compile::in_tree;
use crate::lab::porting::{Fate, PortingPage};

#[test]
fn snippets_that_clang_refuses_give_the_pages_message() {
    needs!(clang);
    let page = PortingPage::read();
    for snippet in page.of(Fate::RefusedByClang) {
        snippet.expect_in(&page.compile(snippet).expect_err(&snippet.text));
    }
}

#[test]
fn snippets_that_check_refuses_give_the_pages_message() {
    needs!(clang);
    let page = PortingPage::read();
    for snippet in page.of(Fate::RefusedByCheck) {
        snippet.expect_in(&page.check(snippet, "properties"));
    }
}

/// Otherwise the message of the page would not be the verifier's.
#[test]
fn other_snippets_of_the_page_compile_for_bpf_and_natively() {
    needs!(clang);
    let page = PortingPage::read();
    let accepted = page.of(Fate::Accepted).chain(page.of(Fate::RefusedByVerifier)).chain(page.of(Fate::RefusedSlowly));
    // An external variable is looked up at load, which the native build does not do.
    for snippet in accepted.filter(|snippet| !snippet.text.contains("extern")) {
        page.compile(snippet).unwrap_or_else(|why| panic!("{}: {why}", snippet.text));
    }
}

#[test]
fn example_of_the_page_is_the_tested_dctcp() {
    let source = fs::read_to_string(in_tree("tests/fixtures/author/rfc8257.bpf.c")).unwrap();
    for example in PortingPage::read().of(Fate::Example) {
        for function in example.text.split("\n\n") {
            assert!(source.contains(function), "not in the file:\n{function}");
        }
    }
}
