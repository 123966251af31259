//! Compiles the program that changes a link while a scenario runs.

fn main() -> anyhow::Result<()> {
    programs::skeletons(&["path"])
}
