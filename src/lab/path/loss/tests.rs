//! Loss models as text, and what they are expected to lose.

use proptest::prelude::*;

use super::*;

fn model(text: &str) -> LossModel {
    match text.parse() {
        Ok(LossText::Model(model)) => model,
        other => panic!("{text}: {other:?}"),
    }
}

fn refusal(text: &str) -> String {
    text.parse::<LossText>().unwrap_err().to_string()
}

#[test]
fn models_are_read_with_the_defaults_of_tc_netem() {
    assert_eq!(model("1%"), LossModel::Independent(Share(0.01)));
    let [p, r] = [Share(0.01), Share(0.25)];
    let full = Gilbert { to_bad: p, to_good: r, bad_loss: Share(0.7), good_loss: Share(0.001) };
    assert_eq!(model("gilbert:p=1%,r=25%,1-h=70%,1-k=0.1%"), LossModel::Gilbert(full));
    let simple = Gilbert { bad_loss: Share(1.0), good_loss: Share(0.0), ..full };
    assert_eq!(model("gilbert:r=25%,p=1%"), LossModel::Gilbert(simple));
    assert_eq!(model("gilbert:p=1%"), LossModel::Gilbert(Gilbert { to_good: Share(0.99), ..simple }));
    assert_eq!(model("bursts:loss=1%,mean=4"), LossModel::Bursts(Bursts { loss: p, mean_pkts: 4.0 }));
    let LossModel::Positions(trace) = model("positions:3, 17,18") else { panic!("not a list") };
    assert_eq!((&trace.positions[..], trace.count), (&[3, 17, 18][..], 3));
    assert_eq!("trace:a/b.txt".parse(), Ok(LossText::File("a/b.txt".into())));
}

#[test]
fn mistakes_name_the_value_and_what_is_allowed() {
    let check = |text: &str, what: &str| assert!(refusal(text).contains(what), "{text}: {}", refusal(text));
    check("150%", "\"150%\": expected a share such as 1%, gilbert:");
    check("1", "write 1% or 100%");
    check("gilbert", "expected a share such as 1%");
    check("gauss:1%", "expected a share such as 1%");
    check("trace:", "expected a share such as 1%");
    check("gilbert:", "\"\": expected name=value");
    check("gilbert:r=5%", "p is missing, such as p=1%");
    check("gilbert:p=2", "p = \"2\": expected a share");
    check("gilbert:p=1%,h=3%", "\"h\": expected one of p, r, 1-h, 1-k");
    check("gilbert:p=1%,r=0%", "nothing leads out of the bad state");
    check("bursts:loss=1%", "mean is missing, such as mean=4");
    check("bursts:loss=1%,mean=0.5", "expected packets from 1 to 1000000");
    check("bursts:loss=1%,mean=NaN", "expected packets from 1");
    check("bursts:loss=60%,mean=1", "loss = 60%: expected at most 50% for runs of 1");
    check("positions:", "expected packet numbers from 1");
    check("positions:0,1", "0: the first packet is 1");
    check("positions:5,5", "5 after 5: expected each packet number once");
    check("positions:5,-2", "\"-2\": expected packet numbers from 1");
}

#[test]
fn file_of_positions_is_read_with_the_line_of_a_mistake() {
    let read = |text: &str| LossPositions::read("x.txt", text);
    let trace = read("# the second and the fifth\n2\n5\n").unwrap();
    assert_eq!((&trace.positions[..], trace.name.as_str()), (&[2, 5][..], "trace:x.txt"));
    assert_eq!(read("2\n2\n").unwrap_err(), "line 2: 2 after 2: expected each packet number once, in order");
    assert_eq!(read("0\n").unwrap_err(), "line 1: \"0\": expected a whole number from 1 to 18446744073709551615");
    assert_eq!(read("# none\n").unwrap_err(), "expected at least one packet number");
}

#[test]
fn models_survive_a_plan() {
    for text in ["1%", "0.00000123", "gilbert:p=0.1%,r=25%", "bursts:loss=1.23456789%,mean=3.7", "positions:1,9"] {
        let written = serde_json::to_string(&model(text)).unwrap();
        assert_eq!(serde_json::from_str::<LossModel>(&written).unwrap(), model(text), "{written}");
    }
    assert_eq!(serde_json::to_string(&model("1%")).unwrap(), "\"1%\"", "as plans have always had it");
    let other: LossModel = serde_json::from_str(&serde_json::to_string(&model("positions:1,9")).unwrap()).unwrap();
    assert_ne!(other, model("positions:1,8"));
}

/// The exact moments for two packets, by hand: the first meets the good state, the second the bad one with p.
#[test]
fn expected_losses_start_in_the_good_state() {
    let two = model("gilbert:p=50%,r=50%").expected(2);
    assert!((two.mean - 0.5).abs() < 1e-12, "{two:?}");
    assert_eq!(model("positions:1,2,7").expected(6), ExpectedLosses { mean: 2.0, variance: 0.0 });
    assert_eq!(model("gilbert:p=0%,1-k=10%").expected(100).mean, 10.0);
    assert!((model("bursts:loss=2%,mean=5").gilbert().unwrap().long_run() - 0.02).abs() < 1e-12);
    let binomial = model("10%").expected(100);
    assert!((binomial.mean - 10.0).abs() < 1e-12 && (binomial.variance - 9.0).abs() < 1e-12);
    // With r = 1-p the next state does not depend on the present one, so losses are independent.
    let free = model("gilbert:p=10%").expected(100);
    assert!((free.variance - 9.0).abs() < 1e-9 && (free.mean - 9.9).abs() < 1e-9, "{free:?}");
}

proptest! {
    /// Whatever is written, reading ends with a model within its ranges or with a short message.
    #[test]
    fn any_text_is_read_or_refused_briefly(text in "(gilbert:|bursts:|positions:|trace:)?[-a-z0-9%=,.:# \u{e9}]{0,80}") {
        match text.parse::<LossText>() {
            Ok(LossText::Model(model)) => {
                prop_assert!((0.0..=1.0).contains(&model.long_run().0), "{model:?}");
                let expected = model.expected(10_000);
                prop_assert!(expected.mean.is_finite() && expected.mean >= -1e-6 && expected.variance >= 0.0);
            }
            Ok(LossText::File(file)) => prop_assert!(!file.is_empty()),
            Err(why) => prop_assert!(why.to_string().len() < 400, "{why}"),
        }
    }

    #[test]
    fn any_file_is_read_or_refused_with_its_line(text in "[-0-9a-z#. \n]{0,200}") {
        match LossPositions::read("x", &text) {
            Ok(trace) => prop_assert!(trace.positions.is_sorted_by(|a, b| a < b) && trace.positions[0] > 0),
            Err(why) => prop_assert!(why.starts_with("line ") || why.contains("at least one"), "{why}"),
        }
    }

    #[test]
    fn printed_models_read_back(p in 0.0..=1.0f64, r in 1e-9..=1.0f64, h in 0.0..=1.0f64, k in 0.0..=1.0f64) {
        let [to_bad, to_good, bad_loss, good_loss] = [p, r, h, k].map(Share);
        let given = LossModel::Gilbert(Gilbert { to_bad, to_good, bad_loss, good_loss });
        prop_assert_eq!(model(&given.to_string()), given);
    }
}
