//! Links and flows of the scenarios that tests write.

pub fn link(ends: [&str; 2], fields: &str) -> String {
    format!("[[link]]\nends = {ends:?}\n{fields}\n\n")
}

pub fn flow(name: &str, [from, to]: [&str; 2], fields: &str) -> String {
    format!("[[flow]]\nname = {name:?}\nfrom = {from:?}\nto = {to:?}\n{fields}\n\n")
}
