"""Runs cases one by one, each in a process of its own, and says which of them hold."""

import os
import signal
import sys
import traceback

CASES = []
LIMIT_SECONDS = 60


def case(function):
    """Adds a case. It holds if it raises nothing."""
    CASES.append(function)
    return function


def run_one(function):
    """Runs a case in a child and gives what went wrong, or nothing."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(LIMIT_SECONDS)
        problem = ""
        try:
            function()
        except BaseException as error:  # also what a case exits with
            frame = traceback.extract_tb(error.__traceback__)[-1]
            problem = f"{type(error).__name__}: {error} ({os.path.basename(frame.filename)}:{frame.lineno})"
        os.write(write, problem.encode()[:4000])
        os._exit(1 if problem else 0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        problem = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return problem


def main():
    """Prints `ok NAME` or `failed NAME: WHY` for each case, or for those that are named."""
    wanted = sys.argv[1:]
    for function in CASES:
        name = function.__name__
        if wanted and name not in wanted:
            continue
        problem = run_one(function)
        line = f"failed {name}: {' '.join(problem.split())}" if problem else f"ok {name}"
        print(line, flush=True)
