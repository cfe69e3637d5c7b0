#!/usr/bin/env python3
"""Runs the benchmark programs in turn, round after round, and writes a report.

Each program is started anew in each round, in an order that turns with the rounds, on one core. So
whatever drifts on the machine meets all of them alike, and what is compared was measured together.
"""

import argparse
import datetime
import os
import pathlib
import platform
import statistics
import subprocess
import sys

PROGRAMS = {
    "bench-c": "C",
    "bench-grapture": "grapture",
    "bench-cudarc": "cudarc 0.19",
    "bench-oxicuda": "oxicuda 0.5",
}
SUBJECT, BASE = "grapture", "C"

# Each measure: what it is, and the ratio to C that Grapture may not exceed.
MEASURES = {
    "launch": ("one graph launch, CPU time, none waiting for room in the stream", 1.02),
    "capture_op": ("one kernel launch into a capturing stream", 1.10),
    "end_instantiate": ("end of the capture, count of the nodes, instantiation", 1.05),
    "eager_op": ("one kernel launch into a stream that does not capture", 1.10),
    "launch_sync": ("one graph launch and the wait for its end", None),
    "eager_sync": ("the same kernels launched one by one, and the wait for their end", None),
}


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="their folder")
    parser.add_argument("--rounds", type=int, default=20, help="how often each is started")
    parser.add_argument("--cpu", type=int, help="the core to run on; the last one if not given")
    parser.add_argument("--report", type=pathlib.Path, help="where the report goes; else the terminal")
    parser.add_argument("--samples", type=pathlib.Path, help="a file that takes every sample as CSV")
    parser.add_argument("--only", action="append", help="a program such as bench-cudarc; repeatable")
    return parser.parse_args()


def run(program, cpu):
    """The samples of one run: (measure, n) -> nanoseconds."""
    done = subprocess.run(
        [program],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
    )
    if done.returncode != 0:
        sys.exit(f"{program} failed ({done.returncode}):\n{done.stderr}")
    samples = {}
    for line in done.stdout.splitlines():
        measure, n, nanoseconds = line.split(",")
        samples.setdefault((measure, int(n)), []).append(float(nanoseconds))
    return samples


def measure(programs, rounds, cpu):
    """All rounds: name -> a list of what each round gave. A first round warms up and is dropped."""
    results = {name: [] for name in programs.values()}
    order = list(programs)
    for index in range(rounds + 1):
        for program in order:
            samples = run(program, cpu)
            if index > 0:
                results[programs[program]].append(samples)
        order = order[1:] + order[:1]
        print(f"round {index} of {rounds}", file=sys.stderr)
    return results


def medians(results):
    """name -> (measure, n) -> the median of all samples."""
    pooled = {}
    for name, rounds in results.items():
        keys = rounds[0].keys()
        pooled[name] = {
            key: statistics.median(value for one in rounds for value in one[key]) for key in keys
        }
    return pooled


def ratios(results, name, key):
    """The ratio to C within each round, in order of size."""
    pairs = zip(results[name], results[BASE])
    return sorted(statistics.median(a[key]) / statistics.median(b[key]) for a, b in pairs)


def said(command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def machine(cpu):
    query = "name,driver_version,clocks.sm,clocks.max.sm,persistence_mode"
    gpu = said(["nvidia-smi", "-i", "0", f"--query-gpu={query}", "--format=csv,noheader"])
    models = {
        line.split(":", 1)[1].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
    return [
        f"- GPU: {gpu or 'none found; this is a run on another driver'}"
        + (f" ({query.replace(',', ', ')})" if gpu else ""),
        f"- CPU: {', '.join(sorted(models)) or 'unknown'}, core {cpu} of {os.cpu_count()}",
        f"- Linux {platform.release()}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}",
    ]


def table(results, pooled, key_measure):
    names = [name for name in results]
    lengths = sorted({n for measure, n in pooled[BASE] if measure == key_measure})
    yield "| N | " + " | ".join(f"{name} µs" if name == BASE else name for name in names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for n in lengths:
        key = (key_measure, n)
        cells = [f"{n:,}"]
        for name in names:
            micros = f"{pooled[name][key] / 1e3:,.3f}"
            if name == BASE:
                cells.append(micros)
                continue
            each = ratios(results, name, key)
            low, high = each[len(each) // 4], each[(3 * len(each)) // 4]
            ratio = pooled[name][key] / pooled[BASE][key]
            cells.append(f"**{ratio:.3f}** ({low:.3f}–{high:.3f}), {micros}")
        yield "| " + " | ".join(cells) + " |"


def bars(pooled):
    """Each bar: the measure, the worst ratio, at which N, the limit."""
    for key_measure, (_, limit) in MEASURES.items():
        if limit is None or SUBJECT not in pooled:
            continue
        found = {
            n: pooled[SUBJECT][(measure, n)] / pooled[BASE][(measure, n)]
            for measure, n in pooled[BASE]
            if measure == key_measure
        }
        n = max(found, key=found.get)
        yield key_measure, found[n], n, limit


def report(results, rounds, cpu):
    pooled = medians(results)
    yield "# Launch, capture and instantiation against C on the driver API"
    yield ""
    yield "`cargo xtask bench --report bench-reports/NAME.md` reproduces it; on a machine without Rust,"
    yield "`bash run.sh bench --report NAME.md` in the folder that `cargo xtask gpu-bundle` made."
    yield ""
    yield "## Machine"
    yield ""
    yield f"Measured on {datetime.date.today().isoformat()}."
    yield ""
    yield from machine(cpu)
    yield ""
    yield "## Method"
    yield ""
    yield "A chain of N kernels, each one block of 32 threads that add to one word, captured from one"
    yield "stream in the thread-local mode. `bench/c/bench.c` and `bench/src/lib.rs` hold the sequence."
    yield f"Each program ran {rounds} times in turn with the others, after one round to warm up, on one"
    yield "core. Every program checks the word in the end, so no launch was lost."
    yield "Times are medians of all samples. A ratio in bold is to the median of C; in brackets the"
    yield "quartiles of the ratios within the rounds. cudarc runs with its event tracking off, without"
    yield "which it cannot capture; of oxicuda, which launches no kernels, a launch is its raw function."
    yield ""
    for key_measure, (text, limit) in MEASURES.items():
        yield f"## `{key_measure}`: {text}"
        yield ""
        yield from table(results, pooled, key_measure)
        yield ""
    yield "## Decision"
    yield ""
    yield "| measure | worst ratio | at N | limit | holds |"
    yield "|---|---|---|---|---|"
    for key_measure, ratio, n, limit in bars(pooled):
        holds = "yes" if ratio <= limit else "**no**"
        yield f"| `{key_measure}` | {ratio:.3f} | {n:,} | {limit:.2f} | {holds} |"
    yield ""
    yield "## Not tested"
    yield ""
    yield "Graphs that are no chain, updates, several streams or devices, other drivers, and the time"
    yield "to destroy; a busy machine."


def main():
    chosen = options()
    programs = {
        str(chosen.programs.resolve() / file): name
        for file, name in PROGRAMS.items()
        if (chosen.programs / file).is_file()
        and (not chosen.only or file in chosen.only or name == BASE)
    }
    if BASE not in programs.values():
        sys.exit(f"there is no bench-c in {chosen.programs}")
    cores = sorted(os.sched_getaffinity(0))
    cpu = cores[-1] if chosen.cpu is None else chosen.cpu
    results = measure(programs, chosen.rounds, cpu)
    if chosen.samples:
        with open(chosen.samples, "w") as file:
            for name, rounds in results.items():
                for index, samples in enumerate(rounds):
                    for (key_measure, n), values in samples.items():
                        for value in values:
                            file.write(f"{name},{index},{key_measure},{n},{value}\n")
    text = "\n".join(report(results, chosen.rounds, cpu)) + "\n"
    if chosen.report:
        chosen.report.parent.mkdir(parents=True, exist_ok=True)
        chosen.report.write_text(text)
        print(f"{chosen.report} was written")
    else:
        print(text)


if __name__ == "__main__":
    main()
