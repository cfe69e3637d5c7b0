#!/usr/bin/env python3
"""Runs the benchmark programs in turn, round after round, and writes a report.

Each program measures C too, sample by sample in turn with itself, in one process on one core. So
whatever drifts on the machine meets both alike. Ratios are taken within a process, never across.
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
    "bench-c": "C again",
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
    parser.add_argument("--rounds", type=int, default=5, help="how often each is started")
    parser.add_argument("--cpu", type=int, help="the core to run on; the last one if not given")
    parser.add_argument("--report", type=pathlib.Path, help="where the report goes; else the terminal")
    parser.add_argument("--samples", type=pathlib.Path, help="a file that takes every pair as CSV")
    parser.add_argument("--only", action="append", help="a program such as bench-cudarc; repeatable")
    return parser.parse_args()


def run(program, cpu):
    """The samples of one process: (measure, n) -> those of the program and those of C, by pairs."""
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
        name, measure, n, nanoseconds = line.split(",")
        sides = samples.setdefault((measure, int(n)), ([], []))
        sides[name == BASE].append(float(nanoseconds))
    if any(len(own) != len(base) for own, base in samples.values()):
        sys.exit(f"{program} gave samples that are no pairs")
    return samples


def measure(programs, rounds, cpu):
    """All rounds: name -> a list of what each round gave."""
    results = {name: [] for name in programs.values()}
    order = list(programs)
    for index in range(rounds):
        for program in order:
            results[programs[program]].append(run(program, cpu))
        order = order[1:] + order[:1]
        print(f"round {index + 1} of {rounds}", file=sys.stderr)
    return results


def micros(results, key, side):
    """The median of all samples of one side, over the programs in `results`."""
    values = (value for rounds in results.values() for one in rounds for value in one[key][side])
    return statistics.median(values) / 1e3


def ratios(rounds, key):
    """The ratio of the medians within each process, in order of size."""
    return sorted(statistics.median(one[key][0]) / statistics.median(one[key][1]) for one in rounds)


def pair_ratio(rounds, key):
    """The median of the ratios of all pairs."""
    return statistics.median(own / base for one in rounds for own, base in zip(*one[key]))


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
        f"- Linux {'.'.join(platform.release().split('.')[:2])}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}",
    ]


def lengths(results, key_measure):
    first = next(iter(results.values()))[0]
    return sorted({n for measure, n in first if measure == key_measure})


def table(results, key_measure):
    yield f"| N | {BASE} µs | " + " | ".join(results) + " |"
    yield "|---" * (len(results) + 2) + "|"
    for n in lengths(results, key_measure):
        key = (key_measure, n)
        cells = [f"{n:,}", f"{micros(results, key, 1):,.3f}"]
        for name, rounds in results.items():
            each = ratios(rounds, key)
            low, high = each[len(each) // 4], each[(3 * len(each)) // 4]
            own = micros({name: rounds}, key, 0)
            cells.append(f"**{statistics.median(each):.3f}** ({low:.3f}–{high:.3f}), {own:,.3f}")
        yield "| " + " | ".join(cells) + " |"


def bars(results):
    """Each bar: the measure, the worst ratio, at which N, the ratio by pairs there, the limit."""
    for key_measure, (_, limit) in MEASURES.items():
        if limit is None or SUBJECT not in results:
            continue
        rounds = results[SUBJECT]
        found = {
            n: statistics.median(ratios(rounds, (key_measure, n)))
            for n in lengths(results, key_measure)
        }
        n = max(found, key=found.get)
        yield key_measure, found[n], n, pair_ratio(rounds, (key_measure, n)), limit


def report(results, rounds, cpu):
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
    yield "stream in the thread-local mode. Each program has C on the driver API in its process and takes"
    yield "every sample in turn with it: C, then the program, then the program first, and so on, each"
    yield "with its own stream, word and graph in one context. `bench/src/` holds the sequence,"
    yield "`bench/c/bench.c` the calls of C. The graph that is made first, when there is none, is the"
    yield "cheaper one for the driver, so all are destroyed four times and the other side makes the"
    yield "first. The destruction of a graph is outside the times,"
    yield f"and a pause follows it. Each program was started anew in {rounds} rounds, on one core. Every"
    yield "process checks both words in the end, so no launch was lost."
    yield ""
    yield "A ratio in bold is the median, over the processes, of the median of the program over the"
    yield "median of C in the same process; in brackets the quartiles over the processes. Times are"
    yield "medians of all samples, those of C from the processes of all programs, so they compare less"
    yield "well than the ratios. cudarc runs with its event tracking off, without which it cannot"
    yield "capture; of oxicuda, which launches no kernels, a launch is its raw function."
    yield ""
    for key_measure, (text, limit) in MEASURES.items():
        yield f"## `{key_measure}`: {text}"
        yield ""
        yield from table(results, key_measure)
        yield ""
    yield "## Decision"
    yield ""
    yield "| measure | worst ratio | at N | median of its pairs | limit | holds |"
    yield "|---|---|---|---|---|---|"
    for key_measure, ratio, n, pairs, limit in bars(results):
        holds = "yes" if ratio <= limit else "**no**"
        yield f"| `{key_measure}` | {ratio:.3f} | {n:,} | {pairs:.3f} | {limit:.2f} | {holds} |"
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
        and (not chosen.only or file in chosen.only)
    }
    if not programs:
        sys.exit(f"there is none of these programs in {chosen.programs}")
    cores = sorted(os.sched_getaffinity(0))
    cpu = cores[-1] if chosen.cpu is None else chosen.cpu
    results = measure(programs, chosen.rounds, cpu)
    if chosen.samples:
        with open(chosen.samples, "w") as file:
            for name, rounds in results.items():
                for index, samples in enumerate(rounds):
                    for (key_measure, n), sides in samples.items():
                        for own, base in zip(*sides):
                            file.write(f"{name},{index},{key_measure},{n},{own},{base}\n")
    text = "\n".join(report(results, chosen.rounds, cpu)) + "\n"
    if chosen.report:
        chosen.report.parent.mkdir(parents=True, exist_ok=True)
        chosen.report.write_text(text)
        print(f"{chosen.report} was written")
    else:
        print(text)


if __name__ == "__main__":
    main()
