# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own cache kind
#
# Your model keeps something that none of the kinds describes. Before you write code, ask two
# questions: does a kind that exists need as many blocks at every length, and if not, does one of
# the rules of the kernels? This tutorial answers both for three caches, and adds a kind for the
# last one. It needs a checkout: it works on a copy, and leaves your files alone.

# %%
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from kvplan import Problem, plan


def blocks(cache, capacity, tokens_per_block=16):
    """Blocks that one request of a capacity needs in a cache: the floor of its pool."""
    problem = Problem(
        ranks=[{"name": "r", "quota": "1GiB"}],
        tokens_per_block=tokens_per_block,
        pools=[{"name": "p", "bytes": 1}],
        caches=[{"name": "c", **cache}],
        batches=[{"name": "b", "requests": [{"name": "q", "capacity": capacity}]}],
        fill="none",
    )
    return plan(problem).floors["p"]


# %% [markdown]
# ## Three caches
#
# 1. **Attention sinks**: the first 64 tokens stay, and a window of 1,024 slides. That is `window`
#    with `sink`: no code.
# 2. **Strided keys**: one row for every four tokens. A block of 16 rows holds 64 tokens, so it is
#    `full` with `tokens_per_block: 64`: no code either.
# 3. **A head**: the first 512 tokens of a request, and nothing else. A window slides away from
#    them, a state does not grow with the request: no kind says it.

# %%
lengths = range(16, 2400, 16)
curves = {
    "window 1,024 with sink 64": {"kind": "window", "window": 1024, "sink": 64},
    "one row for four tokens": {"kind": "full", "tokens_per_block": 64},
    "full": {"kind": "full"},
}
figure, axis = plt.subplots(figsize=(8, 3.2), dpi=80)
for label, cache in curves.items():
    axis.plot(lengths, [blocks(cache, n) for n in lengths], label=label)
axis.plot(lengths, [min(n, 512) // 16 for n in lengths], "k--", label="a head of 512: to be added")
axis.set_xlabel("tokens of a request")
axis.set_ylabel("blocks")
axis.grid(alpha=0.3)
axis.legend()
figure.tight_layout()
plt.show()
for label, cache in curves.items():
    print(f"{label:<27}", [blocks(cache, n) for n in (16, 512, 1024, 2048, 8192)])

# %% [markdown]
# ## A kind that is new
#
# A head of h tokens needs min(ceil(C/t), ceil(h/t)) blocks. The kernels know that shape: `FLIGHT`
# is min(ceil(C/t), ceil((A + F)/t)), so h - 1 for A and one token in flight give it. No search and
# no CP-SAT row has to change. CONTRIBUTING.md has the patch, a dozen lines in these files: the
# field, its integers, and the rule from its definition twice more, for the check and the oracle,
# which share no code with the search.

# %%
ROOT = next(path for path in Path.cwd().resolve().parents if (path / "CONTRIBUTING.md").exists())
patch = (ROOT / "CONTRIBUTING.md").read_text().split("```diff\n")[1].split("```")[0]
print("\n".join(line[6:] for line in patch.splitlines() if line.startswith("+++ b/")))

# %% [markdown]
# Applied to a copy, the kind can be planned with, replayed by the oracle (`replay=True`), and
# compared with every plan that the oracle enumerates (`oracle.best`):

# %%
copy = Path(tempfile.mkdtemp())
for part in ("models", "kernels", "solver", "face", ".typing"):
    if (ROOT / part).exists():
        shutil.copytree(ROOT / part, copy / part, symlinks=True)
subprocess.run(
    ["git", "apply", "--unidiff-zero", "-"], cwd=copy, input=patch, text=True, check=True
)

CHECK = """
from kvplan import Problem, plan
from kvplan.solver import oracle

for head in (1, 16, 17, 512):
    problem = Problem.parse(f'''
ranks: [{{name: r, quota: 60}}]
tokens_per_block: 16
pools: [{{name: p, bytes: 1}}]
caches: [{{name: first, kind: head, head: {head}}}, {{name: all, kind: full}}]
batches: [{{name: b, requests: [{{name: q, capacity: 900, fit: capacity}}]}}]
fill: none
''')
    auto, *others = [plan(problem, solver=s, replay=True) for s in ("auto", "cp-sat", "bisect")]
    assert {other.digest for other in others} == {auto.digest}
    assert dict(oracle.best(problem).blocks) == dict(auto.blocks)
    print(f"head {head:>3}: {auto.blocks['p']} blocks, {auto.requests[0].capacity} tokens")
"""
environment = {"PYTHONPATH": str(copy / ".typing"), "PATH": "/usr/bin:/bin"}
done = subprocess.run(
    [sys.executable, "-c", CHECK], cwd=copy, env=environment, capture_output=True, text=True
)
print(done.stdout, done.stderr)
shutil.rmtree(copy)

# %% [markdown]
# ## Recommendation

# %%
# What the text below says.
assert [blocks(curves["one row for four tokens"], n) for n in (64, 65, 8192)] == [1, 2, 128]
assert done.returncode == 0
assert done.stdout.count("head") == 4

# %% [markdown]
# **Try the fields first, then the constants, then a rule.**
#
# * `sink`, `tokens_per_block`, `groups`, `extra_blocks`, `shards`, `keep` and a pool of its own say
#   more than their names: two of the three caches needed no code.
# * If your need is one of the five rules with other constants, apply the four steps above to your
#   checkout, add a row to `tests/kernels/test_need.py` and the kind to the random problems in
#   `tests/support/instances.py`, and run `pytest tests/kernels tests/oracle`.
# * If it is none of them, write the formula into `kernels/need.py`, and in its own words into
#   `kernels/triton/rules.py` and `solver/cpsat/`. It must not fall as a request grows by whole
#   periods, or the search proves nothing; `kernels/README.md` says why.
# * State the rule for the check and the oracle from its definition, never from your formula. They
#   are what tells you that the formula is wrong.
