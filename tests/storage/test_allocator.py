"""Memory of large buffers is kept only while somebody decodes, and only in a process of ours."""

from __future__ import annotations

import platform
import subprocess
import sys
import textwrap

import pytest

#: Counts the new pages for 50 times three buffers of 6 MiB: before and inside the block; and of 1 MiB after it.
SCRIPT = """
    import ctypes, resource, sys
    from asdffs import allocator

    if sys.argv[1] == "ours":
        allocator.own_process()
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]

    def faults(size):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(50):
            held = [library.malloc(size) for _ in range(3)]
            for one in held:
                ctypes.memset(one, 1, size)
            for one in held:
                library.free(one)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * 4096

    outside, idle = faults(6 << 20), resident()
    with allocator.reused_memory():
        with allocator.reused_memory():
            inside = faults(6 << 20)
        still = faults(6 << 20)
    kept = resident() - idle
    print(outside, inside, still, kept, faults(1 << 20))
"""


def counted(whose: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), whose], capture_output=True, text=True, check=True
    )
    return [*map(int, done.stdout.split())]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep freed memory")
def test_buffers_are_used_again_inside() -> None:
    outside, inside, still, kept, after = counted("ours")
    assert inside < outside / 5
    assert still < outside / 5, "another one is still inside"
    assert kept < 6 << 20, "at the end, the memory is given back"
    assert after < 3000, "buffers of other decoders are used again afterwards, too, as by default"


@pytest.mark.long
def test_a_process_of_others_is_left_alone() -> None:
    outside, inside, *_ = counted("theirs")
    assert inside > outside / 2
