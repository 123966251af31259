//! `[dumbbell]` and `[parking_lot]`: usual topologies written short. Each value of their links keeps its place in the
//! file, so that mistakes are named where they were written.

use super::link::Link;
use super::table::{Reader, Result, Table};

/// A usual topology.
struct Shape {
    name: &'static str,
    /// The field that says how large it is.
    counted: &'static str,
    draw: fn(usize) -> Vec<Made>,
}

const SHAPES: [Shape; 2] = [
    Shape { name: "dumbbell", counted: "pairs", draw: dumbbell },
    Shape { name: "parking_lot", counted: "hops", draw: parking_lot },
];

/// A link that a shape stands for: which of its tables says what it is, and the key that says what differs there.
struct Made {
    ends: [String; 2],
    class: &'static str,
    own: String,
}

impl Made {
    fn new(ends: [String; 2], class: &'static str, own: &str) -> Self {
        Made { ends, class, own: own.to_owned() }
    }

    /// The link with the fields of its own, and below them those of its class.
    fn link<'t>(self, shape: &Table<'t>) -> Result<Link<'t>> {
        let own = if self.own == self.class { Table::empty(shape.reader) } else { fields(shape, &self.own)? };
        Link::new(self.ends, own.over(&fields(shape, self.class)?))
    }
}

/// The fields of a link in one of a shape's tables.
fn fields<'t>(shape: &Table<'t>, key: &str) -> Result<Table<'t>> {
    let fields = shape.table(key)?;
    match fields.get("ends") {
        Some(ends) => Err(ends.refuse_field("the shape says which nodes its links join; leave this out")),
        None => Ok(fields),
    }
}

impl<'t> Reader<'t> {
    /// The links of every shape.
    ///
    /// Errors: a shape whose number of hosts is missing or outside its range; a key that it does not have.
    pub(super) fn drawn_links(&self) -> Result<Vec<Link<'t>>> {
        let mut links = Vec::new();
        for Shape { name, counted, draw } in SHAPES {
            let Some(value) = self.document().get(name) else { continue };
            let table = value.table()?;
            let expected = table.field(counted).and_then(|field| field.kind.expected_number()).unwrap_or_default();
            let number = table.get(counted).ok_or_else(|| table.missing(counted, format!("missing: {expected}")))?;
            let made = draw(number.whole()? as usize);
            let general = [counted, "access", "bottleneck"];
            let is_known = |key: &str| general.contains(&key) || made.iter().any(|link| link.own == key);
            table.check_known(is_known, &general, || {
                let own: Vec<&str> = made.iter().map(|link| link.own.as_str()).collect();
                format!("{}, or one link's own: {}", general.join(", "), own.join(", "))
            })?;
            for link in made {
                links.push(link.link(&table)?);
            }
        }
        Ok(links)
    }
}

/// s1, s2, … to `left`, the bottleneck to `right`, and on to r1, r2, …
fn dumbbell(pairs: usize) -> Vec<Made> {
    let sender = |n| Made::new([format!("s{n}"), "left".into()], "access", &format!("s{n}"));
    let receiver = |n| Made::new(["right".into(), format!("r{n}")], "access", &format!("r{n}"));
    let middle = Made::new(["left".into(), "right".into()], "bottleneck", "bottleneck");
    (1..=pairs).map(sender).chain([middle]).chain((1..=pairs).map(receiver)).collect()
}

/// Routers n0, n1, … in a row, a bottleneck between each two; s0 to r0 over all of them, s1 to r1 over the first, s2 to
/// r2 over the second, and so on.
fn parking_lot(hops: usize) -> Vec<Made> {
    let router = |n: usize| format!("n{n}");
    let access = |host: String, at: usize| Made::new([host.clone(), router(at)], "access", &host);
    let exit = |host: String, at: usize| Made::new([router(at), host.clone()], "access", &host);
    let senders = (0..=hops).map(|n| access(format!("s{n}"), n.saturating_sub(1)));
    let middle = (1..=hops).map(|n| Made::new([router(n - 1), router(n)], "bottleneck", &format!("hop{n}")));
    let receivers = (0..=hops).map(|n| exit(format!("r{n}"), if n == 0 { hops } else { n }));
    senders.chain(middle).chain(receivers).collect()
}

#[cfg(test)]
mod tests {
    use crate::path::route::shortest_path;
    use crate::scenario::tests;
    use crate::scenario::whole::Scenario;
    use std::time::Duration;

    fn scenario(shape: &str, from: &str, to: &str) -> Scenario {
        tests::scenario(1, &(shape.to_owned() + &tests::flow("f", [from, to], tests::RENO)))
    }

    /// The nodes on the way, and its one-way delay in milliseconds.
    fn way(scenario: &Scenario, from: &str, to: &str) -> (String, u128) {
        let links = &scenario.cells[0].links;
        let way = shortest_path(links, from, to).unwrap();
        let delay: Duration = way.iter().map(|hop| hop.direction(links).delay).sum();
        (way.iter().map(|hop| hop.towards(links)).collect::<Vec<_>>().join(" "), delay.as_millis())
    }

    #[test]
    fn dumbbell_joins_pairs_over_one_bottleneck() {
        let shape = "[dumbbell]\npairs=2\naccess={rate=\"100mbit\",delay=\"1ms\"}\ns2={delay=\"30ms\"}\n\
                     bottleneck={rate=\"10mbit\",delay=\"20ms\",queue=\"50pkts\"}\n";
        let scenario = scenario(shape, "s1", "r1");
        assert_eq!(scenario.cells[0].links.len(), 5);
        assert_eq!(way(&scenario, "s1", "r1"), ("left right r1".into(), 22));
        assert_eq!(way(&scenario, "s2", "r2"), ("left right r2".into(), 51));
        let narrow = scenario.cells[0].bottleneck(&["f"], &[]).unwrap();
        assert_eq!(narrow.bits, 10e6);
        let rates: Vec<u64> = scenario.cells[0].links.iter().map(|link| link.directions[0].rate.unwrap().0).collect();
        assert_eq!(rates, [100_000_000, 100_000_000, 10_000_000, 100_000_000, 100_000_000]);
    }

    #[test]
    fn parking_lot_has_one_pair_over_all_and_one_over_each_bottleneck() {
        let shape = "[parking_lot]\nhops=3\naccess={delay=\"1ms\"}\nbottleneck={rate=\"10mbit\",delay=\"10ms\"}\n\
                     hop2={delay=\"50ms\"}\n";
        let scenario = scenario(shape, "s0", "r0");
        assert_eq!(way(&scenario, "s0", "r0"), ("n0 n1 n2 n3 r0".into(), 72));
        assert_eq!(way(&scenario, "s1", "r1"), ("n0 n1 r1".into(), 12));
        assert_eq!(way(&scenario, "s3", "r3"), ("n2 n3 r3".into(), 12));
    }

    #[test]
    fn shape_and_links_of_the_file_make_one_network() {
        let shape = "[[link]]\nends=[\"r1\",\"x\"]\ndelay=\"5ms\"\n[dumbbell]\npairs=1\nbottleneck={delay=\"2ms\"}\n";
        assert_eq!(way(&scenario(shape, "s1", "x"), "s1", "x").1, 7);
    }
}
