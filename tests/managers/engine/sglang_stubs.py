"""SGLang's planning part without its kernels: modules that are only named at import are stubbed."""

from __future__ import annotations

import importlib.machinery
import sys
from types import ModuleType
from typing import Any, ClassVar

STUBBED = ("torchvision", "tvm_ffi", "vllm", "sgl_kernel", "flashinfer", "xgrammar", "llguidance")


class Lenient(type):
    """A class with every attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class Anything(ModuleType):
    """A module whose every name is a class that takes anything."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Lenient(name, (), {"__init__": lambda self, *a, **k: None})


class Stubs:
    """Finds and loads the stubbed packages and all below them."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.split(".")[0] not in STUBBED:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> ModuleType:
        return Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def install() -> None:
    """Put the stubs before the path; transformers is asked first, so that it sees none of them."""
    from transformers.utils import is_torchvision_available

    assert not is_torchvision_available()
    sys.meta_path.insert(0, Stubs())
