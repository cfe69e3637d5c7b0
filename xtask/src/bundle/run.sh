#!/usr/bin/env bash
# Runs what `cargo xtask gpu-bundle` built, on a machine with an NVIDIA driver.
#
#   bash run.sh                 the tests of one GPU, the examples and the program; ends with a sum
#   bash run.sh --multi-gpu     the tests of several GPUs
#   bash run.sh bench [...]     the benchmarks (python3 is needed); see `bash run.sh bench --help`
#   bash run.sh sanitize        the program and the examples under compute-sanitizer
#
# OUT=folder takes what the programs write; without it, a temporary folder does.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
export GRAPTURE_PROGRAM="$here/bin/grapture"
passed=0 failed=0 skipped=0

# Unpacks and runs one binary of tests, and adds what its summary says.
tests() {
    local name=$1 log="$out/$1.log" sum
    shift
    echo "== $name"
    gunzip -c "$here/tests/$name.gz" > "$unpacked/$name" && chmod +x "$unpacked/$name"
    (cd "$here" && timeout 900 "$unpacked/$name" "$@" --test-threads=1) 2>&1 | tee "$log"
    rm -f "$unpacked/$name"
    sum=$(grep '^test result: ' "$log" | tail -n 1)
    if [[ $sum =~ ([0-9]+)\ passed\;\ ([0-9]+)\ failed\;\ ([0-9]+)\ ignored\; ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        skipped=$((skipped + BASH_REMATCH[3]))
    else
        echo "$name ended without a summary"
        failed=$((failed + 1))
    fi
}

# Runs one program, which passes if it succeeds.
program() {
    echo "== $*"
    if (cd "$out" && timeout 300 "$@" 2>&1); then
        passed=$((passed + 1))
    else
        echo "failed: $*"
        failed=$((failed + 1))
    fi
}

# The program and the examples, each behind the words given.
programs() {
    program "$@" "$here/bin/grapture" doctor
    program "$@" "$here/bin/grapture" demo --output "$out/demo.png"
    for example in "$here"/examples/*; do
        [[ -x $example ]] && program "$@" "$example"
    done
}

case ${1:-} in
bench)
    shift
    exec python3 "$here/bench/run.py" --programs "$here/bench" "$@"
    ;;
sanitize)
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
    if [[ -z $sanitizer ]]; then
        echo "there is no compute-sanitizer on this machine" >&2
        exit 2
    fi
    # Before driver 13.2 the parameters of a kernel are counted by asking past the last: no fault.
    programs "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 1
    ;;
--multi-gpu)
    for test in "$here"/tests/*.gz; do tests "$(basename "$test" .gz)" multi_gpu_; done
    ;;
'')
    for test in "$here"/tests/*.gz; do tests "$(basename "$test" .gz)" gpu_ --skip multi_gpu_; done
    programs
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 && $passed -gt 0 ]]
