//! Compiles the program that sets conditions of flows, and the link itself, and writes the types of its C.

fn main() -> anyhow::Result<()> {
    programs::link();
    programs::types("link")?;
    programs::skeletons(&["path"], &["flow_end", "conditions", "receiver"])
}
