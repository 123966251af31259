//! Features of one direction over real links: loss models, changes over time, rate traces, reordering, duplication.

use tccc::path::change::DirectionChange;
use tccc::path::loss::{LossModel, LossText};
use tccc::path::rate_trace::RateTrace;

use super::*;
use crate::lab::link::wall_nanos;

const SHORT: Duration = Duration::from_millis(5);

fn model(text: &str) -> LossModel {
    match text.parse().unwrap() {
        LossText::Model(model) => model,
        LossText::File(file) => panic!("a file: {file}"),
    }
}

#[test]
fn every_loss_model_repeats_its_losses_for_equal_seeds_and_counts_its_runs() {
    needs!(root);
    for text in ["gilbert:p=2%,r=30%,1-h=90%,1-k=0.2%", "bursts:loss=5%,mean=5", "positions:1,2,3,77,1999,2001"] {
        let run = || {
            let lossy = Direction { loss: model(text), seed: 4, ..plain(SHORT) };
            let lab = LinkLab::new(&TunLink, [lossy, plain(SHORT)]);
            (survivors(&lab, 2_000), lab.link.counters()[0].clone())
        };
        let (arrived, counters) = run();
        assert_eq!(run().0, arrived, "{text}");
        let lost: Vec<u64> = (0..2_000).filter(|packet| !arrived.contains(packet)).collect();
        let runs = lost.chunk_by(|a, b| a + 1 == *b).count() as u64;
        assert_eq!((counters.lost_pkts, counters.loss_runs), (lost.len() as u64, Some(runs)), "{text}");
        let expected = model(text).expected(2_000);
        let distance = (lost.len() as f64 - expected.mean).abs();
        assert!(distance <= 3.5 * expected.variance.sqrt() + 1e-9, "{text}: {} lost for {expected:?}", lost.len());
        if text.starts_with("positions") {
            assert_eq!(lost, [0, 1, 2, 76, 1998]);
        }
    }
}

#[test]
fn link_changes_on_schedule_and_counts_drops_while_down() {
    needs!(root);
    let at = |millis, change: DirectionChange| DirectionChange { at: Duration::from_millis(millis), ..change };
    let changes = vec![
        at(300, DirectionChange { delay: Some(Duration::from_millis(60)), ..DirectionChange::default() }),
        at(600, DirectionChange { up: Some(false), ..DirectionChange::default() }),
        at(900, DirectionChange { up: Some(true), ..DirectionChange::default() }),
    ];
    let lab = LinkLab::new(&TunLink, [Direction { changes, ..plain(SHORT) }, plain(SHORT)]);
    let (mut sender, receiver) = lab.udp(0);
    let begin = wall_nanos();
    lab.link.start();
    let mut sent = Vec::new();
    let arrivals = receive_during(&receiver, || {
        while wall_nanos() - begin < 1_200_000_000 {
            sent.push(wall_nanos() - begin);
            sender.send(100);
            std::thread::sleep(Duration::from_millis(10)); // the pace of the sender
        }
    });
    // Ignores packets near a change, because the sender may be delayed after it reads the clock.
    let sure = |from: u64, to: u64| {
        let inside = move |at: u64| (from * 1_000_000 + 20_000_000..to * 1_000_000 - 20_000_000).contains(&at);
        sent.iter().enumerate().filter(move |(_, at)| inside(**at)).map(|(number, _)| number as u64)
    };
    let delay =
        |number| arrivals.iter().find(|arrival| arrival.number == number).map(|arrival| arrival.delay / 1_000_000);
    assert!(sure(0, 300).all(|number| delay(number).is_some_and(|ms| ms >= 5)));
    assert!(sure(300, 600).chain(sure(900, 1_200)).all(|number| delay(number).is_some_and(|ms| ms >= 60)));
    assert!(sure(600, 900).all(|number| delay(number).is_none()));
    let fast = sure(0, 300).filter(|number| delay(*number) < Some(30)).count();
    assert!(fast * 2 > sure(0, 300).count(), "{fast} packets took less than 30 ms before the change");
    let [there, _] = lab.link.counters();
    assert_eq!(there.received_pkts, there.sent_pkts + there.down_pkts, "{there:?}");
    assert!(there.down_pkts >= sure(600, 900).count() as u64 && there.lost_pkts == 0, "{there:?}");
}

#[test]
fn link_with_a_rate_trace_delivers_at_its_opportunities() {
    needs!(root);
    // Rounds of 200 ms: a pause of 100 ms, then two packets every 50 ms.
    let trace = RateTrace::new("x".into(), vec![100, 100, 150, 150, 200, 200]).unwrap();
    let rate = Some(trace.mean());
    let traced = Direction { rate, trace: Some(trace), queue: QueueSize::Packets(100), ..plain(SHORT) };
    let lab = LinkLab::new(&TunLink, [traced, plain(SHORT)]);
    let (mut sender, receiver) = lab.udp(0);
    lab.link.start();
    let begin = wall_nanos();
    let arrivals = receive_during(&receiver, || (0..24).for_each(|_| sender.send(MTU)));
    let numbers: Vec<u64> = arrivals.iter().map(|arrival| arrival.number).collect();
    assert_eq!(numbers, (0..24).collect::<Vec<_>>());
    for arrival in &arrivals {
        let (round, pair) = (arrival.number / 6, arrival.number % 6 / 2);
        let due = (round * 200 + 100 + pair * 50 + 5) * 1_000_000;
        let at = arrival.at - begin;
        // The link starts just before the test's clock. Packets may be late on a busy host, but early only by that.
        assert!(at + 20_000_000 >= due, "{arrival:?} at {at} ns, due {due}");
    }
    let last = arrivals.last().unwrap().at - arrivals[0].at;
    assert!(last >= 680_000_000, "24 packets within {last} ns");
}

#[test]
fn link_reorders_and_duplicates_the_same_packets_for_equal_seeds() {
    needs!(root);
    let run = |seed| {
        let reorder = Some("share=5%,by=40ms".parse().unwrap());
        let changed = Direction { reorder, duplicate: Share(0.1), seed, ..plain(SHORT) };
        let lab = LinkLab::new(&TunLink, [changed, plain(SHORT)]);
        let (mut sender, receiver) = lab.udp(0);
        let arrivals = receive_during(&receiver, || (0..2_000).for_each(|_| sender.send(200)));
        (arrivals.iter().map(|arrival| arrival.number).collect::<Vec<_>>(), lab.link.counters()[0].clone())
    };
    let (order, counters) = run(4);
    let copies = |order: &[u64]| {
        let mut order = order.to_vec();
        order.sort_unstable();
        order.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect::<Vec<_>>()
    };
    assert_eq!(counters.duplicated_pkts, copies(&order).len() as u64);
    assert_eq!(counters.sent_pkts, 2_000 + counters.duplicated_pkts, "{counters:?}");
    let mut largest = 0;
    let behind = order.iter().filter(|number| {
        largest = largest.max(**number);
        **number < largest
    });
    assert_eq!(behind.count() as u64, counters.reordered_pkts.unwrap(), "{counters:?}");
    assert!((50..170).contains(&counters.reordered_pkts.unwrap()), "{counters:?}");
    assert!((150..250).contains(&counters.duplicated_pkts), "{counters:?}");
    assert_eq!(copies(&run(4).0), copies(&order));
    assert_ne!(copies(&run(5).0), copies(&order));
}

#[test]
fn netem_link_loses_bursts_as_its_two_state_model_predicts() {
    needs!(root, netem);
    let model = model("bursts:loss=5%,mean=5");
    let lossy = Direction { loss: model.clone(), seed: 4, ..plain(SHORT) };
    let lab = LinkLab::new(&Netem, [lossy, plain(SHORT)]);
    let arrived = survivors(&lab, 20_000);
    let expected = model.expected(20_000);
    let lost = 20_000 - arrived.len() as u64;
    assert_eq!(lab.link.counters()[0].lost_pkts, lost);
    let distance = (lost as f64 - expected.mean).abs();
    assert!(distance <= 4.5 * expected.variance.sqrt(), "{lost} lost for {expected:?}");
    let runs = arrived.windows(2).filter(|pair| pair[1] > pair[0] + 1).count() as f64;
    assert!((4.0..6.0).contains(&(lost as f64 / runs)), "{lost} lost in {runs} runs");
}
