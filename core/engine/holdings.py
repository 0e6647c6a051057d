"""What is held in memory and on disk, by the workers and for one student: shown, and given back.

Workers are shared by the class. What becomes of one that a student would give back is the
dispatcher's decision (`Fate`); how much it holds is measured by whoever runs the processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from core.activities import Lane


class Use(StrEnum):
    """What a worker does at this moment, as one student sees it."""

    STARTING = "starting"
    IDLE = "idle"
    MINE = "mine"  # runs a job of this student
    TOGETHER = "together"  # one run serves this student and others
    OTHERS = "others"  # runs jobs of others
    LEAVING = "leaving"  # was told to end


class Fate(StrEnum):
    """What giving back does to a worker."""

    ENDS = "ends"  # the process ends: nothing else frees a CUDA context
    DROPS = "drops"  # lets go of the models it holds, and stays for whoever comes next
    EMPTY = "empty"  # nothing: it holds no model, and was never asked for one or has given it back
    SHARED = "shared"  # nothing: others have just used what it holds, or wait for it
    BUSY = "busy"  # nothing: it starts, runs a job or leaves, as its `use` says


class Held(msgspec.Struct, frozen=True):
    """What a worker says of itself while it rests. MiB; None where CUDA has not started."""

    models: tuple[str, ...] = ()
    tensors: int = 0  # alive on its device
    tensors_mib: float = 0.0  # theirs; what several share is counted once
    reserved_mib: float | None = None  # PyTorch's cache on the card
    allocated_mib: float | None = None  # in use, of that


@dataclass(frozen=True, slots=True)
class WorkerHolding:
    """One living worker. Memory in MiB, None where it is not known."""

    worker: str
    device: str
    lane: Lane
    use: Use
    fate: Fate
    idle_seconds: float | None = None  # None: it is not idle
    models: tuple[str, ...] = ()
    pid: int | None = None
    ram_mib: float | None = None
    own_vram_mib: float | None = None  # of its process, by the driver
    held: Held | None = None  # None: it has not rested since it ran, or was asked to let go

    @property
    def vram_mib(self) -> float | None:
        """Of its process by the driver; where that does not say, what PyTorch has reserved."""
        if self.own_vram_mib is not None or self.held is None:
            return self.own_vram_mib
        return self.held.reserved_mib

    @property
    def context_mib(self) -> float | None:
        """What the card holds for the process besides PyTorch's tensors and cache."""
        if self.own_vram_mib is None or self.held is None:
            return None
        return max(0.0, self.own_vram_mib - (self.held.reserved_mib or 0.0))


@dataclass(frozen=True, slots=True)
class Holdings:
    """Every worker of the lab, and what is kept for one student."""

    workers: tuple[WorkerHolding, ...] = ()
    jobs: int = 0  # finished ones that the engine remembers
    picture_bytes: int = 0  # of all its jobs
    files: int = 0  # in the student's own folder
    file_bytes: int = 0
    queued: int = 0
    running: int = 0  # or stopping
    recording: int = 0  # finished, and on their way to the records

    @property
    def at_rest(self) -> bool:
        """Whether nothing of this student is under way, so that nothing comes to the records."""
        return not (self.queued or self.running or self.recording)


def own_vram_mib(
    holders: dict[int, float | None] | None, pid: int, *, ids_are_the_hosts: bool
) -> float | None:
    """What the driver's list of a card says of a process.

    Not to be in it means 0 only where the list speaks of the same process ids: in a container it
    may carry the host's.
    """
    if holders is None:
        return None
    if pid in holders:
        return holders[pid]
    return 0.0 if ids_are_the_hosts else None
