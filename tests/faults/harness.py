"""Disturb a writer in every way, run it again, and compare with a run that was left alone.

    python -m faults.harness csv --moments 100        (in the folder `tests`)

It forks a process for each run, so that only the first one pays for imports.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # forks and threads do not go together

import numpy as np
import torch
from faults.privileges import drop_override
from faults.writers import WRITERS
from tqdm.auto import tqdm  # the class of the package's bars: each class may have its own lock

from oslo_sklearn.cli import end_workers

CHANGES = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate"}
FAILED = 3
MOST_SECONDS = 600


class Disturbed:
    """One writer, its folder, and what came out of it undisturbed."""

    def __init__(self, name: str, seed: int):
        self.writer = WRITERS[name]()
        self.rng = np.random.default_rng(seed)
        self.scratch = Path(tempfile.mkdtemp(prefix="faults-"))
        self.folder = self.scratch / "work"  # always the same name: files may hold it
        self.input = self.scratch / "input"
        self.input.mkdir()
        self.writer.prepare(self.input)
        self._warm_up()
        self.reset()
        start = time.monotonic()
        self.run(self._count_changes)
        self.seconds = time.monotonic() - start
        self.n_changes = int((self.scratch / "changes").read_text())
        self.expected = self.writer.outcome(self.folder)
        sizes = [path.stat().st_size for path in self.folder.rglob("*") if path.is_file()]
        self.largest = max(sizes)

    def _warm_up(self) -> None:
        """Import, load and compile once, for all runs to come."""
        self.reset()
        if self.writer.n_jobs is not None:
            self.run()  # workers of this process would be shared by its forks
            return
        torch.set_num_threads(1)
        with warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
            warnings.simplefilter("ignore")
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                assert not self.writer.run(self.folder)

    def reset(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.input, self.folder)

    def start(self, before=None) -> int:
        """Fork a run; what is done ``before`` it is done in the new process only."""
        # A pipe, for a file would be subject to the limits that runs are given.
        printed, log = os.pipe()
        # Ctrl-C that comes before the run has begun waits for it: Python drops it within a fork.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            os.close(log)
            self._printed = os.fdopen(printed, errors="replace")
            return pid
        code = FAILED
        try:
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.setpgid(0, 0)
            signal.alarm(MOST_SECONDS)  # a run that hangs ends, and with it the test
            # Forks share the lock of tqdm: one that ends with it would stop all others.
            tqdm.set_lock(threading.RLock())
            torch.set_num_threads(1)
            warnings.simplefilter("ignore")
            if before is not None:
                before()
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                code = self.writer.run(self.folder) or 0
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run is over
        except KeyboardInterrupt:
            code = 130
        except OSError:
            traceback.print_exc()
            code = 2
        except BaseException:
            traceback.print_exc()
        finally:
            end_workers()
            os._exit(code)

    def run(self, before=None, expected=(0,)) -> int:
        code = self.wait(self.start(before))
        assert code in expected, f"ended with {code}\n{self.printed()}"
        return code

    def wait(self, pid: int) -> int:
        _, status, self.usage = os.wait4(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def printed(self) -> str:
        return self._printed.read()

    def _count_changes(self) -> None:
        """Count what the run does to files of its folder."""
        file = self.scratch / "changes"
        counted = [0]

        def hook(event, args):
            if self._is_change(event, args):
                counted[0] += 1
                os.pwrite(descriptor, str(counted[0]).encode(), 0)

        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        sys.addaudithook(hook)

    def _is_change(self, event, args) -> bool:
        if event not in CHANGES:
            return False
        return event == "os.truncate" or str(self.folder) in str(args[0])

    def _die_at_change(self, number: int) -> None:
        left = [number]

        def hook(event, args):
            if self._is_change(event, args):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    def compare(self) -> None:
        """The outcome is the undisturbed one, and no other files are there."""
        found = self.writer.outcome(self.folder)
        different = [key for key in self.expected if found.get(key) != self.expected[key]]
        assert not different, f"{different} differ from the undisturbed run"
        assert found.keys() == self.expected.keys(), found.keys() ^ self.expected.keys()
        self.no_temporary_files()

    def no_temporary_files(self) -> None:
        left = self.hidden_files()
        left += map(str, self.folder.rglob("*.part"))
        pages = list(self.folder.glob("out/page-*"))
        assert not left, left
        assert len(pages) <= 1, pages

    def hidden_files(self) -> list[str]:
        return [str(path) for path in self.folder.rglob(".*")]

    def rerun(self, finished: set) -> None:
        self.run()
        self.compare()
        assert finished <= self.writer.finished(self.folder), "finished work was lost"

    def kill(self, n_moments: int) -> dict:
        """SIGKILL at random instants and before random changes of files, run after run."""
        n_killed = n_reruns = 0
        finished = set()
        self.reset()
        while n_killed < n_moments:
            at_change = n_killed % 2
            number = int(self.rng.integers(1, self.n_changes + 1))
            pid = self.start(partial(self._die_at_change, number) if at_change else None)
            if not at_change:
                time.sleep(self.rng.uniform(0, self.seconds))
                os.kill(pid, signal.SIGKILL)
            code = self.wait(pid)
            assert code in (0, -signal.SIGKILL), f"ended with {code}\n{self.printed()}"
            n_killed += code != 0
            now = self.writer.finished(self.folder)
            assert finished <= now, "finished work was lost"
            finished = now
            # Some runs are killed again and again; every fifth is let through.
            if code == 0 or n_killed % 5 == 0:
                self.rerun(finished)
                n_reruns += 1
                self.reset()
                finished = set()
        return {"kills": n_killed, "reruns": n_reruns}

    def interrupt(self, n_moments: int) -> dict:
        """SIGINT at random instants: it ends soon, leaves nothing behind, and can go on."""
        n_interrupted, slowest, slowest_cpu, span = 0, 0.0, 0.0, self.seconds
        for _ in range(10 * n_moments):
            self.reset()
            pid = self.start()
            time.sleep(self.rng.uniform(0.05, 0.9) * span)
            os.kill(pid, signal.SIGSTOP)  # on a busy machine it would end while it is looked at
            used = cpu_seconds(pid)
            start = time.monotonic()
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGCONT)
            code = self.wait(pid)
            assert code in (0, 130), f"ended with {code}\n{self.printed()}"
            if code == 130:
                n_interrupted += 1
                slowest = max(slowest, time.monotonic() - start)
                slowest_cpu = max(slowest_cpu, self.usage.ru_utime + self.usage.ru_stime - used)
                assert not self.hidden_files(), self.hidden_files()
            else:  # over before its signal: runs take less time now than the first one did
                span *= 0.5
            assert_no_orphans(pid)
            self.rerun(self.writer.finished(self.folder))
            if n_interrupted == n_moments:
                break
        return {"interrupts": n_interrupted, "slowest": slowest, "slowest_cpu": slowest_cpu}

    def fill(self, n_sizes: int) -> dict:
        """No file may grow beyond a size, as on a full disk."""
        n_failed = 0
        sizes = np.geomspace(1, self.largest, n_sizes, endpoint=False).astype(int)
        for size in sizes:
            self.reset()
            limit = (int(size), resource.RLIM_INFINITY)
            code = self.run(partial(resource.setrlimit, resource.RLIMIT_FSIZE, limit), (0, 2))
            n_failed += code != 0
            assert not self.hidden_files(), self.hidden_files()
            self.rerun(self.writer.finished(self.folder))
        assert n_failed > n_sizes // 2
        return {"full disks": n_failed}

    def lock_folder(self) -> dict:
        """A folder that cannot be written to is left as it was, with an error."""
        self.reset()
        before = sorted(self.folder.rglob("*"))
        self.folder.chmod(0o555)
        self.run(drop_override, (2,))
        self.folder.chmod(0o755)
        assert sorted(self.folder.rglob("*")) == before
        self.rerun(set())
        return {"read-only": 1}


def cpu_seconds(group: int) -> float:
    """Processor time so far of a group's processes and of those that they have waited for."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def assert_no_orphans(group: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("processes are left")


def disturb(name: str, args) -> dict:
    """All that was asked for; figures of it."""
    disturbed = Disturbed(name, args.seed)
    found = {"writer": name, "seconds": disturbed.seconds, "changes": disturbed.n_changes}
    try:
        if args.moments:
            found |= disturbed.kill(args.moments)
        if args.interrupts:
            found |= disturbed.interrupt(args.interrupts)
        if args.sizes:
            found |= disturbed.fill(args.sizes) | disturbed.lock_folder()
    finally:
        shutil.rmtree(disturbed.scratch, ignore_errors=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("writers", nargs="+", choices=WRITERS)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--interrupts", type=int, default=10)
    parser.add_argument("--sizes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.writers:
        print(json.dumps(disturb(name, args)), flush=True)


if __name__ == "__main__":
    main()
