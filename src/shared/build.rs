//! Compiles the algorithms that the program carries, and writes the types of the tracer's events.

fn main() -> anyhow::Result<()> {
    programs::types("event")?;
    programs::catalog()
}
