//! The page's files, in this binary: bundled by `cargo xtask web` before it was built, or a page that says that they were
//! not.

#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    pub path: &'static str,
    pub content_type: &'static str,
    pub content: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// What a binary shows whose page was not bundled.
const NOT_BUNDLED: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>tccc</title>\
    <p>This tccc was built without its web page: run `cargo xtask web` and build it again. \
    <a href=/metrics>/metrics</a> and `tccc top` work.\n";

pub fn is_bundled() -> bool {
    !FILES.is_empty()
}

/// The file at a path; the page itself is at `/`.
pub(super) fn find(path: &str) -> Option<File> {
    let not_bundled = File { path: "/", content_type: "text/html; charset=utf-8", content: NOT_BUNDLED.as_bytes() };
    let files = if is_bundled() { FILES } else { &[] };
    files.iter().copied().find(|file| file.path == path).or((path == "/" && !is_bundled()).then_some(not_bundled))
}
