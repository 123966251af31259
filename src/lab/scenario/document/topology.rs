//! `[dumbbell]` and `[parking_lot]`: short forms of common topologies. The fields of their links keep their place in
//! the file, so that a mistake is shown where it was written.

use super::CellReader;
use super::link::WrittenLink;
use host::toml_reader::{Found, Result, Table, each};

struct TopologyLink {
    ends: [String; 2],
    /// Key of the table for all links of this kind.
    class: &'static str,
    /// Key of the table for this link alone.
    own: String,
}

fn fields<'t>(topology: &Table<'t>, key: &str) -> Result<Table<'t>> {
    let fields = topology.table(key)?;
    match fields.get("ends") {
        Some(ends) => Err(ends.refuse_field("the topology has fixed nodes: leave this out").into()),
        None => Ok(fields),
    }
}

impl<'t> CellReader<'t> {
    /// # Errors
    /// The size is missing or out of range; an unknown key.
    pub(super) fn topology_links(&self) -> Result<Vec<WrittenLink<'t>>> {
        let mut links = Vec::new();
        let draw_dumbbell: fn(u32) -> Vec<TopologyLink> = dumbbell;
        for (name, counted, draw) in [("dumbbell", "pairs", draw_dumbbell), ("parking_lot", "hops", parking_lot)] {
            let Some(value) = self.document().get(name) else { continue };
            let table = value.table()?;
            let drawn = draw(table.needed(counted)?);
            let general = [counted, "access", "bottleneck"];
            let is_known = |key: &str| general.contains(&key) || drawn.iter().any(|link| link.own == key);
            let expected = || {
                let own: Vec<&str> = drawn.iter().map(|link| link.own.as_str()).collect();
                let names = format!("{}, or the name of a link: {}", general.join(", "), own.join(", "));
                (names, general.to_vec())
            };
            table.unknown_keys(is_known, expected).collect::<Found>().end()?;
            let read = |TopologyLink { ends, class, own }| {
                WrittenLink::new(ends, fields(&table, &own)?.over(&fields(&table, class)?))
            };
            links.extend(each(drawn, read)?);
        }
        Ok(links)
    }
}

/// `s1`, `s2`, … - `left` - `right` - `r1`, `r2`, …
fn dumbbell(pairs: u32) -> Vec<TopologyLink> {
    let link = |ends, class, own: &str| TopologyLink { ends, class, own: own.to_owned() };
    let sender = |n| link([format!("s{n}"), "left".into()], "access", &format!("s{n}"));
    let receiver = |n| link(["right".into(), format!("r{n}")], "access", &format!("r{n}"));
    let middle = link(["left".into(), "right".into()], "bottleneck", "bottleneck");
    (1..=pairs).map(sender).chain([middle]).chain((1..=pairs).map(receiver)).collect()
}

/// `n0` - `n1` - `n2` - …, with hosts so that `s0` sends to `r0` over all bottlenecks, `s1` to `r1` over the first,
/// `s2` to `r2` over the second, and so on.
fn parking_lot(hops: u32) -> Vec<TopologyLink> {
    let router = |n: u32| format!("n{n}");
    let access = |own: String, at| TopologyLink { ends: [own.clone(), router(at)], class: "access", own };
    let exit = |own: String, at| TopologyLink { ends: [router(at), own.clone()], class: "access", own };
    let hop = |n| TopologyLink { ends: [router(n - 1), router(n)], class: "bottleneck", own: format!("hop{n}") };
    let senders = (0..=hops).map(|n| access(format!("s{n}"), n.saturating_sub(1)));
    let receivers = (0..=hops).map(|n| exit(format!("r{n}"), if n == 0 { hops } else { n }));
    senders.chain((1..=hops).map(hop)).chain(receivers).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::path::route::shortest_path;
    use crate::scenario::tests::{RENO, cell, flow};

    /// Each way has its ends, the nodes after the first, and its one-way delay in milliseconds.
    #[track_caller]
    fn check(topology: &str, ways: &[(&str, &str, &str, u128)]) {
        let (first, last, ..) = ways[0];
        let links = cell(&(topology.to_owned() + &flow("f", [first, last], RENO))).links;
        for &(from, to, nodes, delay_ms) in ways {
            let way = shortest_path(&links, from, to).unwrap();
            assert_eq!(way.iter().map(|hop| hop.towards(&links)).collect::<Vec<_>>().join(" "), nodes);
            let delay: Duration = way.iter().map(|hop| hop.direction(&links).delay).sum();
            assert_eq!(delay.as_millis(), delay_ms, "{from} to {to}");
        }
    }

    #[test]
    fn dumbbell_joins_pairs_over_one_bottleneck() {
        let access = "access={rate=\"100mbit\",delay=\"1ms\"}\ns2={delay=\"30ms\"}";
        let dumbbell = format!("[dumbbell]\npairs=2\n{access}\nbottleneck={{rate=\"10mbit\",delay=\"20ms\"}}\n");
        check(&dumbbell, &[("s1", "r1", "left right r1", 22), ("s2", "r2", "left right r2", 51)]);
        let cell = cell(&(dumbbell + &flow("f", ["s1", "r1"], RENO)));
        let rates = cell.links.iter().map(|link| link.directions[0].rate.unwrap().0 / 1_000_000);
        assert_eq!(rates.collect::<Vec<_>>(), [100, 100, 10, 100, 100]);
        assert_eq!(cell.bottleneck(&cell.ways(), &["f"], &[], None).unwrap().bits, 10e6);
    }

    #[test]
    fn parking_lot_has_one_pair_over_all_and_one_over_each_bottleneck() {
        let parking_lot = "[parking_lot]\nhops=3\naccess={delay=\"1ms\"}\nbottleneck={rate=\"10mbit\",delay=\"10ms\"}\n\
                           hop2={delay=\"50ms\"}\n";
        check(
            parking_lot,
            &[("s0", "r0", "n0 n1 n2 n3 r0", 72), ("s1", "r1", "n0 n1 r1", 12), ("s3", "r3", "n2 n3 r3", 12)],
        );
    }

    #[test]
    fn topology_and_links_of_the_file_make_one_network() {
        let both = "[[link]]\nends=[\"r1\",\"x\"]\ndelay=\"5ms\"\n[dumbbell]\npairs=1\nbottleneck={delay=\"2ms\"}\n";
        check(both, &[("s1", "x", "left right r1 x", 7)]);
    }
}
