//! How fast the PTX interpreter of `grapture-sim` is, beside ptoxide in the same process.
//!
//! ```sh
//! cargo run --release --manifest-path bench/ptx/Cargo.toml              # the report
//! cargo run --release --manifest-path bench/ptx/Cargo.toml -- matmul    # one kernel, for a profiler
//! ```

mod device;
mod kernels;
mod peer;

use std::time::Instant;

use kernels::Case;

/// Rounds of the report; each runs every program once, so that a slow moment hits all alike.
const ROUNDS: usize = 15;
/// Rounds in which the peer, which is slow, takes part.
const PEER_ROUNDS: usize = 5;

fn main() {
    let cases = kernels::all();
    let wanted = std::env::args().nth(1);
    match wanted {
        Some(name) => cases.iter().filter(|case| case.name == name).for_each(profile),
        None => report(&cases),
    }
}

/// Runs one kernel for about two seconds.
fn profile(case: &Case) {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    let mut runs = 0;
    while start.elapsed().as_secs() < 2 {
        best = best.min(case.run(1).0);
        runs += 1;
    }
    println!("{}: {runs} runs, {best:.6} s at best", case.name);
}

/// The lower quartile: a machine that others use too only ever adds time.
fn typical(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

fn report(cases: &[Case]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut single = vec![Vec::new(); cases.len()];
    let mut multi = vec![Vec::new(); cases.len()];
    let mut peer = Vec::new();
    let mut instructions = vec![0; cases.len()];
    for round in 0..ROUNDS {
        for (index, case) in cases.iter().enumerate() {
            let (seconds, executed) = case.run(1);
            single[index].push(seconds);
            multi[index].push(case.run(cores).0);
            instructions[index] = executed;
        }
        if round < PEER_ROUNDS {
            peer.push(peer::saxpy());
        }
    }
    let peer = typical(&mut peer);
    println!("| kernel | threads | instructions | one core | {cores} cores | scaling |");
    println!("|---|---|---|---|---|---|");
    for (index, case) in cases.iter().enumerate() {
        let (one, all) = (typical(&mut single[index]), typical(&mut multi[index]));
        let rate = |seconds: f64| instructions[index] as f64 / seconds / 1e6;
        println!(
            "| {} | {} | {} | {:.2} ms, {:.0} M/s | {:.2} ms, {:.0} M/s | {:.2} |",
            case.name,
            case.threads(),
            instructions[index],
            1e3 * one,
            rate(one),
            1e3 * all,
            rate(all),
            one / all,
        );
    }
    let ours = typical(&mut single[0]);
    let threads = cases[0].threads() as f64;
    println!();
    println!("saxpy, one core, threads a second: {:.1} M here, {:.2} M in ptoxide, ratio {:.0}",
        threads / ours / 1e6, threads / peer / 1e6, peer / ours);
}
