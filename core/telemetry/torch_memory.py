"""PyTorch's memory on the card, without importing PyTorch: read only where it runs already."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.telemetry.nvml import MIB, same_uuid

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TorchReading:
    """None where CUDA has not started in this process, or not on this card."""

    reserved_mib: float | None = None  # PyTorch's cache
    allocated_mib: float | None = None  # live tensors


class TorchMemory:
    """Reads PyTorch's own count for the card of this UUID; asks nothing of the driver."""

    def __init__(self, gpu_uuid: str, *, modules: Mapping[str, Any] = sys.modules) -> None:
        self._uuid = gpu_uuid
        self._modules = modules
        self._index: int | None = None
        self._broken = False

    @property
    def cuda_started(self) -> bool:
        """Whether PyTorch in this process has opened CUDA."""
        cuda = getattr(self._modules.get("torch"), "cuda", None)  # absent while torch is loading
        is_initialized = getattr(cuda, "is_initialized", None)
        return bool(is_initialized and is_initialized())

    def read(self) -> TorchReading:
        if self._broken or not self.cuda_started:
            return TorchReading()
        try:
            cuda = self._modules["torch"].cuda
            if self._index is None:
                self._index = self._find(cuda)
            # The nested form is what `memory_reserved()` is made from, at a tenth of its cost.
            stats = cuda.memory.memory_stats_as_nested_dict(self._index)
            reserved = stats["reserved_bytes"]["all"]["current"]
            allocated = stats["allocated_bytes"]["all"]["current"]
        except Exception as error:
            self._broken = True
            log.warning("PyTorch's memory on %s cannot be read: %s", self._uuid, error)
            return TorchReading()
        return TorchReading(reserved / MIB, allocated / MIB)

    def _find(self, cuda: Any) -> int:
        """PyTorch's number of this card, which need not be the driver's."""
        for index in range(cuda.device_count()):
            if same_uuid(str(cuda.get_device_properties(index).uuid), self._uuid):
                return index
        raise LookupError("PyTorch sees no card of this UUID")


def live_tensors(kind: str, *, modules: Mapping[str, Any] = sys.modules) -> tuple[int, float]:
    """How many tensors live on devices of this kind ("cpu", "cuda"), and the MiB of their storage;
    one that several share is counted once.

    Looks at every object of the process, which takes 0.1 s where a large model is loaded.
    """
    torch = modules.get("torch")
    if torch is None:
        return 0, 0.0
    kinds = (torch.Tensor, torch.nn.Parameter)  # exactly: others only play at being one
    frozen = gc.get_freeze_count() > 0  # objects that were frozen are not listed
    if frozen:
        gc.unfreeze()
    found = [o for o in gc.get_objects() if type(o) in kinds and o.device.type == kind]
    if frozen:
        gc.freeze()
    dense = (tensor for tensor in found if tensor.layout is torch.strided)
    storages = {s.data_ptr(): s.nbytes() for s in (tensor.untyped_storage() for tensor in dense)}
    return len(found), sum(storages.values()) / MIB
