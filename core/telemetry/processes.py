"""What this process, its children and the whole machine take of the CPU and of memory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

MIB = 2**20
SHORTEST_SECONDS = 0.04  # the kernel counts others' CPU time in ticks of 10 ms: 4 ticks at least
HOST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux's proc_ns.h
REBASE_SECONDS = 2.0  # see ChildrenClock


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """CPU in percent of one core, since the reading before."""

    cpu_percent: float | None
    children_cpu_percent: float | None
    host_cpu_percent: float | None
    ram_mib: float | None
    pids: frozenset[int]  # this process and all that descend from it


class Rate:
    """Turns a growing count of CPU seconds into percent of one core since the reading before."""

    def __init__(self, *, shortest_seconds: float = 0.0) -> None:
        self._shortest = shortest_seconds
        self._before: tuple[float, float] | None = None  # (time, CPU seconds)
        self._percent: float | None = None

    def percent(self, now: float, cpu_seconds: float, *, afresh: bool = False) -> float | None:
        """None at first; the last figure again if too little time has gone by for a new one.

        `afresh` makes the next figure begin at `now`, however short the time before was.
        """
        if self._before is not None:
            elapsed = now - self._before[0]
            if elapsed > self._shortest:
                self._percent = max(0.0, 100 * (cpu_seconds - self._before[1]) / elapsed)
            elif not afresh:
                return self._percent
        self._before = (now, cpu_seconds)
        return self._percent


class ChildrenClock:
    """CPU seconds of all descendants, dead ones included; never runs backwards.

    A child that has ended and been waited for is in its parent's own count, so the sum over the
    living and the ended is exact however short a child's life is. Between its end and that moment
    the sum may dip, so the largest sum so far is kept; a dip that stays for `REBASE_SECONDS` (a
    child went over to another parent) becomes the new base.
    Windows keeps no count of ended children: there, what one used after its last reading is lost.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._pid = os.getpid() if pid is None else pid
        self._strangers: set[int] = set()
        self._descendants: dict[int, psutil.Process] = {}
        self._base = 0.0  # what has been added to the sums to keep them from running backwards
        self._largest = 0.0
        self._dipped_at: float | None = None

    @property
    def pids(self) -> frozenset[int]:
        return frozenset(self._descendants)

    def seconds(self, now: float) -> float:
        ended = os.times()  # before the living: a child that ends meanwhile is missed, not doubled
        total = self._base + ended.children_user + ended.children_system
        self._find()
        for pid, process in list(self._descendants.items()):
            try:
                used = process.cpu_times()
            except psutil.Error:
                del self._descendants[pid]
                continue
            total += used.user + used.system
            total += getattr(used, "children_user", 0.0) + getattr(used, "children_system", 0.0)
        return self._never_backwards(total, now)

    def _find(self) -> None:
        """Look at process ids not seen before only: a full walk costs 20 times as much."""
        pids = set(psutil.pids())
        self._strangers &= pids
        for gone in self._descendants.keys() - pids:
            del self._descendants[gone]
        parents = {}
        for pid in pids - self._strangers - self._descendants.keys() - {self._pid}:
            try:
                process = psutil.Process(pid)
                parents[pid] = (process.ppid(), process)
            except psutil.Error:
                continue  # gone again
        found = True
        while found:  # once more after each find, since a grandchild may come before its parent
            found = False
            for pid, (parent, process) in list(parents.items()):
                if parent == self._pid or parent in self._descendants:
                    self._descendants[pid] = process
                    del parents[pid]
                    found = True
        self._strangers |= parents.keys()

    def _never_backwards(self, total: float, now: float) -> float:
        if total >= self._largest:
            self._largest = total
            self._dipped_at = None
        elif self._dipped_at is None:
            self._dipped_at = now
        elif now - self._dipped_at >= REBASE_SECONDS:
            self._base += self._largest - total
            self._dipped_at = None
        return self._largest


class ProcessProbe:
    """Reads this process; `read` belongs to one thread at a time and does not raise."""

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._process = psutil.Process()
        self._children = ChildrenClock()
        fine = time.get_clock_info("process_time").resolution < 1e-3  # not so on Windows
        self._own_rate = Rate(shortest_seconds=0.0 if fine else SHORTEST_SECONDS)
        self._children_rate = Rate(shortest_seconds=SHORTEST_SECONDS)
        self._host_rate = Rate(shortest_seconds=SHORTEST_SECONDS)

    def read(self, *, afresh: bool = False) -> ProcessReading:
        now = self._clock()
        own = self._own_rate.percent(now, time.process_time(), afresh=afresh)
        try:
            children = self._children_rate.percent(now, self._children.seconds(now), afresh=afresh)
            host = self._host_rate.percent(now, host_cpu_seconds(), afresh=afresh)
            ram = self._process.memory_info().rss / MIB
        except (psutil.Error, OSError):
            children = host = ram = None
        return ProcessReading(own, children, host, ram, self._children.pids | {os.getpid()})


def process_ids_are_the_hosts() -> bool:
    """Whether this process goes by the ids that the driver knows, so is in no container's list."""
    try:
        return os.readlink("/proc/self/ns/pid") == HOST_PID_NAMESPACE
    except OSError:
        return sys.platform != "linux"  # no such namespaces elsewhere


def host_cpu_seconds() -> float:
    """CPU seconds that all processors of the machine have worked since it started."""
    times = psutil.cpu_times()
    busy = sum(times) - times.idle
    if sys.platform == "linux":  # waiting for disks is idle; guests are in `user` already
        busy -= times.iowait + times.guest + times.guest_nice
    return float(busy)
