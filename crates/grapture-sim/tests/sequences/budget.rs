//! [`Budget`]: how many cases run, and what becomes of one that fails or hangs.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// No case takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// A number of cases, or a time.
pub struct Budget {
    cases: u64,
    time: Option<Duration>,
}

impl Budget {
    /// So many cases, unless the environment asks for a time.
    pub fn new(cases: u64) -> Budget {
        let seconds = std::env::var("GRAPTURE_FUZZ_SECONDS").ok();
        let seconds = seconds.map(|text| text.parse().expect("a number of seconds"));
        Budget { cases, time: seconds.map(Duration::from_secs) }
    }

    /// Runs a case for each seed. One that hangs ends the process; its seed is told.
    pub fn run(&self, case: fn(u64)) {
        let first = match self.time {
            None => 1,
            Some(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
        };
        let first = std::env::var("GRAPTURE_FUZZ_SEED").map_or(first, |text| text.parse().unwrap());
        let end = self.time.map(|time| Instant::now() + time);
        let (ended, watched) = channel::<u64>();
        let watch = std::thread::spawn(move || {
            let mut last = first;
            loop {
                match watched.recv_timeout(LIMIT) {
                    Ok(seed) => last = seed,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("the case with GRAPTURE_FUZZ_SEED={last} hangs");
                        std::process::abort();
                    }
                }
            }
        });
        for seed in first.. {
            let is_over = match end {
                Some(end) => Instant::now() > end,
                None => seed == first + self.cases,
            };
            if is_over {
                break;
            }
            ended.send(seed).unwrap();
            if std::panic::catch_unwind(|| case(seed)).is_err() {
                panic!("the case with GRAPTURE_FUZZ_SEED={seed} fails");
            }
        }
        drop(ended);
        watch.join().unwrap();
    }
}
