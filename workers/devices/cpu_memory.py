"""How much memory the values of a run take: real storages, each counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from weakref import ref

from torch import Tensor


def storage_of(tensor: Tensor) -> tuple[int, int]:
    """Address and bytes of what the tensor, perhaps a view, keeps alive."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


class Weights:
    """The storages of tensors that others keep, without keeping them."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._kept = {storage_of(tensor)[0]: ref(tensor) for tensor in tensors}

    def __contains__(self, address: int) -> bool:
        # Once the tensor is gone, its address may be anyone's.
        kept = self._kept.get(address)
        return kept is not None and kept() is not None


class LiveStorages:
    """Counts the bytes that values keep alive, from all threads, and the most there were.

    Values are held by name until they are released; storages of ``weights`` do not count.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._held: dict[str, list[Tensor]] = {}
        self._holders: Counter[int] = Counter()
        self._bytes = 0
        self._lock = Lock()
        self.peak_bytes = 0

    def hold(self, name: str, tensors: Iterable[Tensor]) -> None:
        """Count the tensors until ``release(name)``, with what the name holds already."""
        with self._lock:
            held = self._held.setdefault(name, [])
            for tensor in tensors:
                held.append(tensor)
                address, size = storage_of(tensor)
                if address not in self._weights:
                    self._holders[address] += 1
                    self._bytes += size if self._holders[address] == 1 else 0
            self.peak_bytes = max(self.peak_bytes, self._bytes)

    def release(self, name: str) -> None:
        """Stop counting what ``name`` holds, unless another name holds it too."""
        with self._lock:
            for tensor in self._held.pop(name, []):
                address, size = storage_of(tensor)
                if address not in self._weights:
                    self._holders[address] -= 1
                    self._bytes -= size if self._holders[address] == 0 else 0
