"""What happens where kvplan cannot answer: one warning, and the engine sizes alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from kvplan.models.errors import KvplanError
from kvplan.models.measured.local import brief

Answer = TypeVar("Answer")


class StartRefused(KvplanError):
    """KVPLAN_STRICT: the start fails, with the text of what kvplan found."""


class LeftAlone(KvplanError):
    """What kvplan does not model yet and leaves to the engine, under KVPLAN_STRICT too."""


class Guard:
    """Runs kvplan's part of an engine's start so that nothing of it can break the start.

    Parameters
    ----------
    engine : name and version, for the texts.
    log : the engine's logger.
    strict : what fails, fails the start.
    """

    def __init__(self, engine: str, log: logging.Logger, *, strict: bool) -> None:
        self.engine, self.log, self._strict = engine, log, strict
        self._warned = False

    def attempt(self, work: Callable[[], Answer]) -> Answer | None:
        """The answer of `work`; None where it failed, after the first warning of this start.

        Raises
        ------
        StartRefused : it failed, and the start is strict.
        """
        try:
            return work()
        except LeftAlone as reason:
            self.log.info("kvplan: %s; %s sizes alone", reason, self.engine)
        except Exception as error:
            self.fail(_text(error), error)
        return None

    def fail(self, text: str, cause: Exception | None = None) -> None:
        """Warn once that the engine sizes alone.

        Raises
        ------
        StartRefused : the start is strict.
        """
        if self._strict:
            raise StartRefused(f"kvplan (KVPLAN_STRICT): {text}") from cause
        if not self._warned:
            self.log.warning("kvplan: %s; %s sizes alone", text, self.engine)
        self._warned = True


def _text(error: Exception) -> str:
    """What an error says, as one line; its class where kvplan did not raise it."""
    said = str(error) if isinstance(error, KvplanError) else f"{type(error).__name__}: {error}"
    return brief(said)
