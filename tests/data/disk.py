"""A disk that runs full, without filling one."""

import resource
from contextlib import contextmanager


@contextmanager
def disk_full_after(size):
    """The system refuses to let a file of this process grow beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
