//! The page's files, embedded in the binary if `cargo xtask web` bundled them before the build.

#[derive(Debug, Clone, Copy)]
pub(super) struct PageFile {
    pub path: &'static str,
    pub content_type: &'static str,
    pub content: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The page of a binary without the bundle.
const NOT_BUNDLED: PageFile = PageFile {
    path: "/",
    content_type: "text/html; charset=utf-8",
    content: b"<!doctype html><html lang=en><meta charset=utf-8><title>tccc</title>\
        <p>This tccc was built without its web page: run `cargo xtask web` and build it again. \
        <a href=/metrics>/metrics</a> and `tccc top` work.\n",
};

pub fn is_bundled() -> bool {
    !FILES.is_empty()
}

pub(super) fn find(path: &str) -> Option<PageFile> {
    let files: &[PageFile] = if is_bundled() { FILES } else { &[NOT_BUNDLED] };
    files.iter().copied().find(|file| file.path == path)
}
