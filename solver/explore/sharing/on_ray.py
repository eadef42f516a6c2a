"""A Ray cluster as an executor: `RayExecutor(address)`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from importlib.util import find_spec
from typing import Any

from kvplan.models import InvalidProblem

_RETRIES = 3
"""A part whose worker is lost is given to another one so many times."""


class RayExecutor(Executor):
    """Runs what is submitted as tasks of a Ray cluster (`pip install 'kvplan[ray]'`).

    Every node needs kvplan installed. A cluster that this process is connected to already is used
    as it is, and left connected.

    Parameters
    ----------
    address : of the cluster, such as "ray://head:10001" or "auto"; None starts one on this machine.

    Raises
    ------
    InvalidProblem : Ray is missing, or there is no cluster at the address.
    """

    def __init__(self, address: str | None = None) -> None:
        if find_spec("ray") is None:
            expected = "Ray (pip install 'kvplan[ray]'), or --workers on this machine"
            raise InvalidProblem.at("--ray", expected, "none installed")
        import ray

        self._ray = ray
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=False)
            except (ConnectionError, ValueError) as error:
                got = f"{address}: {str(error).splitlines()[0]}"
                raise InvalidProblem.at("--ray", "the address of a Ray cluster", got) from None
        self._remote = ray.remote(max_retries=_RETRIES)(_call)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; its future ends as the task does."""
        future: Future[Any] = Future()
        reference = self._remote.remote(fn, args, kwargs)
        threading.Thread(target=self._wait, args=(reference, future), daemon=True).start()
        return future

    def _wait(self, reference: Any, future: Future[Any]) -> None:
        from ray.exceptions import RayError, RayTaskError

        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._ray.get(reference))
        except RayTaskError as error:
            future.set_exception(error.cause)
        except RayError as error:
            future.set_exception(BrokenExecutor(f"a Ray worker was lost: {error}"))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, unless this process was connected before."""
        if self._is_ours:
            self._ray.shutdown()


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)
