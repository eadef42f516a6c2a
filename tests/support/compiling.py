"""Compiles the fused kernel for a GPU that need not be there; prints what it spills.

python compiling.py ARCHITECTURE PROBLEM.yaml ...
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any


def spills(compiled: Any) -> dict[str, int]:
    """Spilled registers and bytes of scratch memory, by the assembler's own account."""
    if "amdgcn" in compiled.asm:
        text = compiled.asm["amdgcn"]
        found = re.findall(r"(\w*spill_count|ScratchSize)\s*:\s*(\d+)", text)
        return {name: int(count) for name, count in found}
    import triton

    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [str(tools / "cuobjdump"), "-res-usage", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: int(count) for name, count in re.findall(r"(STACK|LOCAL):(\d+)", text)}


def compile_for(architecture: str, path: str) -> dict[str, int]:
    """Compile the kernel as it is launched for one problem."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kvplan.kernels.arrays import Scenarios
    from kvplan.kernels.triton.kernel import search_kernel
    from kvplan.kernels.triton.launch import Launch, tile_of
    from kvplan.models import Problem
    from kvplan.solver.formulate.formulation import formulate

    launch = Launch(formulate(Problem.load(path)), "cpu")
    limits = launch.batch.layout.limits(launch.arrays, None)
    spec, _ = launch.spec(launch.columns(Scenarios(1), limits), 1000)
    source = ASTSource(
        fn=search_kernel,
        signature={
            **dict.fromkeys(("inputs", "steps", "tables", "out"), "*i64"),
            "number": "i64",
            "TILE": "constexpr",
            "SPEC": "constexpr",
        },
        constexprs={"TILE": tile_of(spec, 1 << 20, interpreted=False), "SPEC": spec},
    )
    is_amd = architecture.startswith("gfx")
    target = (
        GPUTarget("hip", architecture, 64)
        if is_amd
        else GPUTarget("cuda", int(architecture.removeprefix("sm_")), 32)
    )
    return spills(triton.compile(source, target=target, options={"num_warps": 4}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({path: compile_for(sys.argv[1], path) for path in sys.argv[2:]}))
