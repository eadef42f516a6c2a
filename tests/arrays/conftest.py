"""Without a device Triton is interpreted; it reads the switch when its kernels are imported."""

from __future__ import annotations

import os

if "KVPLAN_DEVICE" not in os.environ:
    os.environ["TRITON_INTERPRET"] = "1"
