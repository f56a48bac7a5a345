import ctypes
from pathlib import Path

import pytest

from neuralstream.heap import give_back

STATUS = Path("/proc/self/status")


def own_mb():
    """Memory that is this process's alone."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim") or not STATUS.exists(), reason="needs glibc on Linux")
def test_freed_memory_goes_back_to_the_system():
    """Freed blocks below one that is in use stay the process's until they are given back."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(64_000) for _ in range(1000)]
    for block in blocks:
        ctypes.memset(block, 1, 64_000)
    for block in blocks[:-1]:
        libc.free(block)
    before = own_mb()
    give_back()
    assert before - own_mb() > 40
    libc.free(blocks[-1])


def test_without_glibc_nothing_happens(monkeypatch):
    """As on macOS: it is no error."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    give_back()
