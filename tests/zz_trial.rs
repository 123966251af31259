
use tccc::experiment::virtual_time::{guest::Guest, image, job::Job, process::Launch, modules::Workshop};
use tccc::experiment::{net::layout::Layout, plan::Plan, scenario::Scenario};
#[test]
fn trial() {
    let text = std::fs::read_to_string("scenarios/smoke/loss-sweep.toml").unwrap();
    let scenario = Scenario::parse("t.toml", &text).unwrap();
    let plan = Plan::new(&scenario, &Default::default()).unwrap();
    let layout = Layout::new(&plan.cells[0], &plan.link_configs(&plan.runs[0]), plan.profile);
    let guest = Guest::find().unwrap();
    let image = image::prepare_with(std::path::Path::new(env!("CARGO_BIN_EXE_tccc"))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let shop = Workshop::open(&guest).unwrap();
    println!("{:?}", shop.laboratory().map_err(|e| format!("{e:#}")));
    Job { layout, modules: vec![], requests: vec![], run_ns: [0,0] }.write(folder.path()).unwrap();
    for _ in 0..5 {
    let begin = std::time::Instant::now();
    let got = Launch { guest: &guest, image: &image, folder: folder.path(), seed: 1, processor: 1, memory_mb: 512, limit: std::time::Duration::from_secs(10) }.run(&|| false);
    println!("{:?} {:?}", begin.elapsed(), got.map_err(|e| format!("{e:#}")));
    println!("{}", std::fs::read_to_string(folder.path().join("console.txt")).unwrap());
    }
    println!("{:?}", std::fs::read_to_string(folder.path().join("settings.json")));
}
