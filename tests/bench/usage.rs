//! Processor time and memory of processes.

use procfs::process::Process;

use super::*;

/// A process's share of one processor over a time, and its memory at the end.
pub struct Usage {
    pub share: f64,
    pub megabytes: f64,
    pub most_megabytes: f64,
}

/// Processor time of a process so far, seconds.
pub fn processor_s(process: u32) -> f64 {
    let stat = Process::new(process as i32).and_then(|process| process.stat()).unwrap();
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}

pub fn over<const N: usize>(time: Duration, processes: [u32; N]) -> [Usage; N] {
    let (before, begin) = (processes.map(processor_s), Instant::now());
    std::thread::sleep(time); // the processes are measured during this time
    std::array::from_fn(|index| {
        let share = (processor_s(processes[index]) - before[index]) / begin.elapsed().as_secs_f64();
        let status = Process::new(processes[index] as i32).and_then(|process| process.status()).unwrap();
        let [megabytes, most_megabytes] = [status.vmrss, status.vmhwm].map(|size| size.unwrap() as f64 / 1024.0);
        Usage { share, megabytes, most_megabytes }
    })
}
