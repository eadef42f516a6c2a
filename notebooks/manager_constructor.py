# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # kvplan in a KV-cache manager: eight ranks, sleep and wake
#
# A server with tensor parallelism on eight devices sizes its pools when it starts. Every rank
# measures other bytes, and all must allocate the same number of blocks. Later the server sleeps,
# a trainer takes memory, and the pools must shrink, without a request being lost. This is the
# manager's constructor, with threads instead of processes; nothing else would change.

# %%
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import torch

from kvplan import Infeasible, Planner, Problem, plan, plan_together
from kvplan.models.measured.local import LocalView
from kvplan.models.ranks import Rank, RankMemory
from kvplan.solver.agree import Hub

GIB, RANKS = 2**30, range(8)

# %% [markdown]
# ## What the server knows without measuring
#
# Layers with full attention and layers with a window of 4,096 tokens have pools of their own; one
# block holds 64 tokens on one rank. One request of 262,144 tokens must fit beside 64 of 8,192 while
# a chunk of 8,192 tokens is read. What is left goes to the full layers, for prefix reuse.

# %%
SHAPE = Problem.parse("""
ranks: [{name: any, quota: 0}]         # every rank brings its own entry
tokens_per_block: 64
resume_utilization: 0.97
pools: [{name: full, bytes: 1MiB, granule: 2MiB}, {name: window, bytes: 3MiB, granule: 2MiB}]
caches:
  - {name: full, pool: full, kind: full}
  - {name: window, pool: window, kind: window, window: 4096, keep: live}
batches:
  - name: longest
    requests:
      - {name: long, capacity: 262144, fit: capacity}
      - {name: short, capacity: 8192, count: 64}
prefill: {requested: 8192, min: 1024, step: 1024, staging: [{name: chunk, per_token: 160KiB}]}
goals: ["capacity:long", prefill]
fill: {pools: [full]}
""")

# %% [markdown]
# ## Measure, agree
#
# On a GPU `measure` is `RankMemory.measure(utilization=0.9, safety={"fraction": 0.02})`. Here the
# readings are those of a published log: weights and activations alike, what lies outside the
# allocator different on each rank ([ROCm/ATOM #3171](https://github.com/ROCm/ATOM/pull/3171)).

# %%
NON_TORCH = ["14.10", "14.46", "14.27", "14.13", "14.33", "14.44", "14.31", "14.46"]


def measure(me):
    return RankMemory(
        total="96GiB",
        free="50GiB",
        utilization=0.9,
        peak_torch="34GiB",
        non_torch=f"{NON_TORCH[me]}GiB",
        safety={"fraction": 0.02},
    )


class Manager:
    """What one rank does with a plan."""

    def __init__(self, me, comm):
        self.me, self.comm = me, comm
        rank = Rank(name=f"tp{me}", memory=measure(me))
        self.plan = plan_together(lambda: LocalView.of(SHAPE, rank), comm, timeout=30)
        self.allocate()

    def allocate(self):
        self.blocks = {pool: range(count) for pool, count in self.plan.blocks.items()}

    def wake(self, quota, again):
        """Agree on the pools for the bytes that are there now."""
        entry = Rank(name=f"tp{self.me}", quota=quota)
        self.plan = plan_together(entry, self.comm, timeout=30, again=again)
        self.allocate()


hub = Hub()
with ThreadPoolExecutor(8) as threads:
    managers = list(threads.map(lambda me: Manager(me, hub.comm(me, RANKS)), RANKS))

first = managers[0].plan
print("digests", {manager.plan.digest[:8] for manager in managers})
print("blocks ", dict(first.blocks))
print("long   ", first.requests[0].capacity, "tokens; chunk", first.prefill_chunk)
tightest = min(first.ranks, key=lambda rank: rank.slack)
print("limited by", tightest.name, "of", {r.name: round(r.quota / GIB, 2) for r in first.ranks})

# %% [markdown]
# Rank tp1 has the least, and its count is everybody's. What the others have more stays free, and
# the ledger of each says how much.
#
# ## A rank that fails
#
# What one rank raises while it measures reaches all of them, at once and in the same words.


# %%
def broken(me):
    def view():
        if me == 5:
            raise RuntimeError("device lost")
        return LocalView.of(SHAPE, Rank(name=f"tp{me}", memory=measure(me)))

    try:
        plan_together(view, hub.comm(me, RANKS, name="broken"), timeout=30)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


with ThreadPoolExecutor(8) as threads:
    print(set(threads.map(broken, RANKS)))

# %% [markdown]
# ## Sleep and wake
#
# After wake a trainer holds 3 GiB of every device. `again=plan` holds what the scheduler relies on
# (capacities, counts, floors) and solves the rest again; `again=planner` fits everything again.

# %%
less = {rank.name: rank.quota - 3 * GIB for rank in first.ranks}


def wake(manager):
    manager.wake(less[f"tp{manager.me}"], again=manager.plan)
    return manager.plan


with ThreadPoolExecutor(8) as threads:
    plans = list(threads.map(wake, managers))
held = plans[0]
print("digests", {each.digest[:8] for each in plans})
print("blocks ", dict(held.blocks), "of which floor", dict(held.floors))
print("long   ", held.requests[0].capacity, "tokens; chunk", held.prefill_chunk)

# %% [markdown]
# How far can it go? `resize` on one rank says it without asking the others, and names what falls
# short.

# %%
planner = Planner(SHAPE.model_copy(update={"ranks": [Rank(name=n, quota=0) for n in less]}))
rows = []
for gib in (0, 1, 2, 3, 4, 6, 8, 12):
    quota = {rank.name: rank.quota - gib * GIB for rank in first.ranks}
    try:
        kept = first.resize(quota)
        row = kept.blocks["full"], kept.requests[0].capacity, kept.prefill_chunk
    except Infeasible as refusal:
        row = "short by", f"{max(s.bytes for s in refusal.shortfall) / GIB:.2f} GiB", ""
    fitted = planner.plan(quota=quota)
    refit = fitted.blocks["full"], fitted.requests[0].capacity, fitted.prefill_chunk
    rows.append((gib, row, refit))
    print(f"{gib:>3} GiB less  resize: {row!s:<32} planner: {refit}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), dpi=80)
for answer, axis, title in zip((first, held), axes, ("after start", "after wake"), strict=True):
    names = [rank.name for rank in answer.ranks]
    bottom = [0.0] * len(names)
    for pool in answer.blocks:
        lines = [next(x for x in rank.ledger if x.consumer == pool) for rank in answer.ranks]
        heights = [line.bytes / GIB for line in lines]
        axis.bar(names, heights, bottom=bottom, label=f"pool {pool}")
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    tops = [rank.phases["prefill"] / GIB for rank in answer.ranks]
    staging = [top - low for top, low in zip(tops, bottom, strict=True)]
    axis.bar(names, staging, bottom=bottom, label="staging, in prefill")
    axis.plot(names, [rank.quota / GIB for rank in answer.ranks], "k_", ms=16, label="quota")
    axis.set_title(title)
    axis.set_ylim(0, 42)
axes[0].set_ylabel("GiB on a rank")
figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=4)
figure.tight_layout(rect=(0, 0.09, 1, 1))
plt.show()

# %% [markdown]
# ## Real tensors
#
# Does a server get what the plan says? Try it with memory that is really allocated: a manager as
# small as one can be, on the CPU (it needs torch). Each pool is one tensor, allocated as planned. A
# request takes a block of `full` for every 16 tokens; of `window` it keeps only what the next token
# still sees.

# %%
SMALL = Problem.parse("""
ranks: [{name: cpu, quota: 4MiB}]
tokens_per_block: 16
pools:
  - {name: full, bytes: 1KiB, reserved_blocks: 1}
  - {name: window, bytes: 1536, reserved_blocks: 1}
caches:
  - {name: full, pool: full, kind: full}
  - {name: window, pool: window, kind: window, window: 128}
batches:
  - name: together
    requests:
      - {name: long, capacity: 100000, fit: capacity}
      - {name: short, capacity: 500, count: 8}
""")


class Tensors:
    """Pools of real memory; block 0 of each is reserved."""

    def __init__(self, problem, answer):
        sizes = {pool.name: sum(int(part.bytes) for part in pool.layout) for pool in problem.pools}
        self.data = {
            pool: torch.zeros(count, sizes[pool], dtype=torch.uint8)  # [block, byte]
            for pool, count in answer.blocks.items()
        }
        self.free = {pool: list(range(1, count)) for pool, count in answer.blocks.items()}
        self.windows = {cache.pool: cache.window for cache in problem.caches}

    def admit(self, tokens):
        """Hold so many tokens, one after the other; False once a pool has no free block."""
        held = {pool: {} for pool in self.data}
        for token in range(tokens):
            for pool, window in self.windows.items():
                first = 0 if window is None else max(0, token + 1 - window)
                for index in [i for i in held[pool] if (i + 1) * 16 <= first]:
                    self.free[pool].append(held[pool].pop(index))
                if token // 16 not in held[pool]:
                    if not self.free[pool]:
                        return False
                    held[pool][token // 16] = block = self.free[pool].pop()
                    self.data[pool][block] = 1  # write to it, as a kernel would
        return True


def serve(longest):
    """Whether eight short requests and a long one fit at once."""
    tensors = Tensors(SMALL, small)
    return all(tensors.admit(tokens) for tokens in [500] * 8 + [longest])


small = plan(SMALL)
capacity = small.requests[0].capacity
allocated = sum(data.numel() for data in Tensors(SMALL, small).data.values())
print(f"allocated {allocated:_} B of {small.ranks[0].quota:_} B; planned {small.ranks[0].used:_} B")
print(f"longest request {capacity:_} tokens: fits {serve(capacity)}")
print(f"one token more  {capacity + 1:_} tokens: fits {serve(capacity + 1)}")
assert allocated == small.ranks[0].used
assert serve(capacity)
assert not serve(capacity + 1)

# %% [markdown]
# ## Inside vLLM, SGLang and others
#
# You need no constructor of your own there: kvplan is a plug-in of vLLM (0.19 to 0.33) and SGLang
# (0.5.23), found once it is installed beside them and off until `KVPLAN` is set. For TensorRT-LLM's
# KVCacheManagerV2 and for ATOM there are functions that turn their objects into a problem, and a
# plan into theirs; they were tested on recorded figures, not run.
#
# | variable | meaning |
# |---|---|
# | `KVPLAN` | `off` (default), `check`: compares and explains, `apply`: sizes |
# | `KVPLAN_WORKLOAD` | a file with the requests that you expect |
# | `KVPLAN_STRICT=1` | a warning fails the start |
# | `KVPLAN_MAX_GROUPS` | vLLM: most groups of layers (16) |
#
# What it buys, in steps until 200 mixed requests are done, in the engines' own schedulers and
# allocators ([what was run, and all rows](../solver/managers/README.md)):
#
# | replay | engine's own | planned |
# |---|---|---|
# | vLLM, gemma-3-27b, 16 GiB | 2,805 | 2,689 |
# | vLLM, gpt-oss-120b, 4 GiB | 2,400 | 2,400 |
# | SGLang, gpt-oss-120b, 16 GiB | 1,408 | 1,010 |
# | SGLang, MiMo-V2-Flash, 16 GiB | 3,029 | 1,038 |
# | SGLang, Qwen3-Next, 12 GiB | 2,350 | 1,839 |
#
# The price: SGLang's window pool shrinks, from 207,125 tokens to 41,084 with gpt-oss-120b, so that
# fewer cached prefixes keep their windows. These replays reuse no prefix. Where yours do, say with
# `prefixes` in the workload file how many must stay, or stay with `check`. In vLLM all layers share
# one pool, so the width of its groups of layers is all that a plan can change; where nothing is
# padded (gpt-oss) it changes nothing.

# %% [markdown]
# ## Recommendation

# %%
(beyond,) = (row for gib, row, _ in rows if gib == 12)
spare = 12 - float(beyond[1].removesuffix(" GiB"))
print(f"GiB that this server can give away and keep its requests: {spare:.2f}")

# What the text below says.
assert beyond[1] == "1.08 GiB"
assert rows[-1][2] == (11568, 193_792, 1024)
assert {each.digest for each in plans} == {held.digest}
assert min(first.ranks, key=lambda rank: rank.quota).name == "tp1"

# %% [markdown]
# **Call `plan_together` in the constructor, and with `again=plan` when the server wakes.** Both are
# one line, and both end with equal digests or the same error everywhere, so that no rank allocates
# on its own.
#
# * This server can give up 10.9 GiB of every device and keep its requests; tell the trainer that
#   figure. The pool of the full layers pays for all of it, since `fill` gave it the rest.
# * For more, drain the requests and pass `again=planner`: at 12 GiB less the longest request falls
#   to 193,792 tokens, and the chunk to 1,024.
# * Give every rank the same problem and the same kvplan. If one differs, the error names the rank
#   and the section.
# * tp1 decides. Whatever frees memory there, and only there, buys blocks on all eight.
