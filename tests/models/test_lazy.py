"""Values that are computed once, and what a fork meets while another thread computes one."""

from __future__ import annotations

import functools
import os
import pkgutil
import signal
import threading
import time
import warnings
from importlib import import_module
from types import ModuleType

import kvplan.kernels
import kvplan.models
import kvplan.solver
from kvplan.models.immutable.lazy import cached_property


class Slow:
    """A value that one instance computes until it is told to go on."""

    def __init__(self, go_on: threading.Event | None = None) -> None:
        self.begun, self.go_on, self.times = threading.Event(), go_on, 0

    @cached_property
    def value(self) -> int:
        """Seven."""
        self.begun.set()
        if self.go_on is not None:
            self.go_on.wait(30)
        self.times += 1
        return 7


def test_a_value_is_computed_once_and_has_its_docstring() -> None:
    slow = Slow()
    assert [slow.value, slow.value, slow.times] == [7, 7, 1]
    assert vars(slow)["value"] == 7
    assert Slow.value.__doc__ == "Seven."


def ends_well(child: int, seconds: float) -> bool:
    """Whether a child process ends with 0 in time; one that hangs is killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_a_fork_reads_what_another_thread_computes_in_the_parent() -> None:
    """The lock of functools in 3.11 would be held in the child for ever."""
    go_on = threading.Event()
    busy = Slow(go_on)
    thread = threading.Thread(target=lambda: busy.value)
    thread.start()
    assert busy.begun.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of what is tested here
        child = os.fork()
    if not child:
        os._exit(0 if Slow().value == 7 else 1)
    try:
        assert ends_well(child, 10)
    finally:
        go_on.set()
        thread.join()


def modules(package: ModuleType) -> list[ModuleType]:
    """Every module of a package but those that need an accelerator's libraries."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [info.name for info in found if ".triton" not in info.name]
    return [import_module(name) for name in names if not name.endswith("__main__")]


def test_no_class_has_the_property_that_locks() -> None:
    packages = (kvplan.models, kvplan.kernels, kvplan.solver)
    locking = {
        f"{kind.__qualname__}.{name}"
        for package in packages
        for module in modules(package)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__.startswith("kvplan.")
        for name, value in vars(kind).items()
        if isinstance(value, functools.cached_property)
    }
    assert not locking
