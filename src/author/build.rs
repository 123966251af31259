//! Collects the files that authors of algorithms need.

fn main() -> anyhow::Result<()> {
    programs::for_authors()
}
