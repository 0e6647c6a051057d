"""One look at everything: the card, this process and its children, PyTorch, the machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from core.telemetry.nvml import (
    Card,
    CardReading,
    GpuAbsent,
    Nvml,
    close_nvml,
    find_device,
    open_nvml,
)
from core.telemetry.processes import ProcessProbe, process_ids_are_the_hosts
from core.telemetry.readings import Absences, Reading
from core.telemetry.torch_memory import TorchMemory, TorchReading

log = logging.getLogger(__name__)

CARD_FIELDS = (
    "gpu_percent",
    "card_used_mib",
    "own_vram_mib",
    "power_watts",
    "temperature_celsius",
    "clock_mhz",
)
TORCH_FIELDS = ("reserved_mib", "allocated_mib")


class Probe:
    """Makes readings. `read` and `close` belong to one thread at a time; neither raises."""

    def __init__(
        self,
        *,
        gpu_uuid: str | None,
        nvml: Nvml | None = None,
        processes: ProcessProbe | None = None,
        ids_are_the_hosts: bool | None = None,
        torch: TorchMemory | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`gpu_uuid` None: the machine only. the rest is for tests."""
        self.absences = Absences()  # replaced whole, so any thread may read it
        self._processes = processes or ProcessProbe(clock=clock)
        self._torch = torch or (TorchMemory(gpu_uuid) if gpu_uuid else None)
        self._ids_are_the_hosts = (
            process_ids_are_the_hosts() if ids_are_the_hosts is None else ids_are_the_hosts
        )
        self._nvml: Nvml | None = None
        self._card: Card | None = None
        try:
            if gpu_uuid is None:
                raise GpuAbsent("absent.no_gpu")
            self._nvml = open_nvml(nvml)
            self._card = Card(self._nvml, find_device(self._nvml, gpu_uuid), clock=clock)
        except GpuAbsent as absent:
            fields = CARD_FIELDS if gpu_uuid else CARD_FIELDS + TORCH_FIELDS
            self.absences = Absences(dict.fromkeys(fields, absent.reason))

    def read(self, seconds: float, *, afresh: bool = False) -> Reading:
        """A reading stamped `seconds`. `afresh`: the next one's CPU figures begin here."""
        process = self._processes.read(afresh=afresh)
        torch = self._torch.read() if self._torch else TorchReading()
        card = self._card.read() if self._card else CardReading()
        own_vram = self._own_vram(card.holders, process.pids)
        if own_vram is None:
            own_vram = torch.reserved_mib
        self._explain(own_vram)
        return Reading(
            seconds=seconds,
            gpu_percent=card.gpu_percent,
            card_used_mib=card.card_used_mib,
            own_vram_mib=own_vram,
            power_watts=card.power_watts,
            temperature_celsius=card.temperature_celsius,
            clock_mhz=card.clock_mhz,
            reserved_mib=torch.reserved_mib,
            allocated_mib=torch.allocated_mib,
            cpu_percent=process.cpu_percent,
            children_cpu_percent=process.children_cpu_percent,
            ram_mib=process.ram_mib,
            host_cpu_percent=process.host_cpu_percent,
        )

    def _own_vram(
        self, holders: dict[int, float | None] | None, pids: frozenset[int]
    ) -> float | None:
        """What the driver says that this process and its children hold.

        Not to be in its list means 0 only if this process could stand there: in a container the
        list may carry the host's process ids, under which nobody finds himself or his children.
        """
        if holders is None:
            return None
        own = [held for pid, held in holders.items() if pid in pids]
        if not own:
            if self._torch and self._torch.cuda_started:
                return None
            return 0.0 if self._ids_are_the_hosts or len(pids) == 1 else None
        known = [held for held in own if held is not None]
        return sum(known) if len(known) == len(own) else None

    def _explain(self, own_vram: float | None) -> None:
        """Publish why figures are absent, when that has changed."""
        if self._card is None:
            return
        reasons = dict(self._card.reasons)
        if own_vram is not None:
            reasons.pop("own_vram_mib", None)
        else:
            reasons.setdefault("own_vram_mib", "absent.not_supported")
        if reasons != self.absences.reasons:
            self.absences = Absences(reasons)

    def close(self) -> None:
        """Give NVML back; readings after this one have no card."""
        nvml, self._nvml, self._card = self._nvml, None, None
        if nvml is not None:
            close_nvml(nvml)
