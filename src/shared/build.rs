//! Compiles the algorithms that the program carries.

fn main() -> anyhow::Result<()> {
    programs::catalog()
}
