# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What fits on a 16 GB card
#
# A mixture of experts (48 layers of 512 experts) on a consumer card with 15.4 GiB free when the
# server plans, 524,288 tokens of int8 KV cache, and a prefill chunk of 24,576 tokens that was asked
# for ([Strata #765](https://github.com/Niko1221/Strata/issues/765), planner of
# [#796](https://github.com/Niko1221/Strata/pull/796)). There, the expert cache took what was free,
# the prefill buffers came last, and the server died after loading. A chunk of 4,096 started, at
# 1,778 instead of 2,159 tokens of prompt a second.
#
# Which context, chunk and number of expert slots should this card be given? We sweep the quota,
# then context against quota, then the chunk.

# %%
from importlib.resources import files

import matplotlib.pyplot as plt

from kvplan import Problem, explore

GIB = 2**30
QUOTA = "ranks.gpu.quota"
CONTEXT = "batches.one.requests.long.capacity"
CHUNK = "prefill.requested"
FREE = 15.4  # GiB, measured
CARD = str(files("kvplan.solver.data") / "demo.yaml")

print(files("kvplan.solver.data").joinpath("demo.yaml").read_text())

# %% [markdown]
# ## How the answer steps with the quota
#
# The context may shrink (`fit: capacity`), and the goals are put in order: all of the context
# first, then the chunk, then expert slots. One sweep shows who gives way when there is less.

# %%
elastic = Problem.load(
    CARD, ("batches.one.requests.long.fit=capacity", "goals=[capacity:long, prefill, experts]")
)
sweep = explore(elastic, {QUOTA: "2GiB:16GiB:64MiB"})
planned = sweep[sweep["status"] == "optimal"]
print(sweep["status"].value_counts().to_string())
print(planned.iloc[::16][[QUOTA, "capacity:long", "prefill", "experts"]].to_string(index=False))

# %%
panels = {
    "capacity:long": "context\n(tokens)",
    "prefill": "prefill chunk\n(tokens)",
    "experts": "expert slots",
    "shortfall": "short of\n(GiB)",
}
figure, axes = plt.subplots(len(panels), 1, sharex=True, figsize=(8, 7), dpi=80)
for axis, (column, label) in zip(axes, panels.items(), strict=True):
    scale = GIB if column == "shortfall" else 1
    values = sweep[column].astype("Float64").to_numpy("float64", na_value=float("nan"))
    axis.step(sweep[QUOTA] / GIB, values / scale, where="post")
    axis.axvline(FREE, color="tab:red", linestyle="--", linewidth=1)
    axis.set_ylabel(label)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
axes[0].set_title("What gives way first (dashed: free on this card)")
axes[-1].set_xlabel("quota (GiB)")
figure.tight_layout()
plt.show()


# %% [markdown]
# More quota first buys context. Then chunk and slots grow together, because expert slots lend the
# chunk its staging while a prompt is read. Once the chunk is complete, only slots grow, at the same
# pace. Where each stage begins, to 1 MiB:


# %%
def first_quota(column, wanted):
    """The smallest quota, to 1 MiB, at which a decision reaches a value."""
    reached = sweep[sweep[column] >= wanted][QUOTA].iloc[0]
    close = explore(elastic, {QUOTA: f"{reached - 64 * 2**20}B:{reached}B:1MiB"})
    return close[close[column] >= wanted][QUOTA].iloc[0]


regimes = {
    "any plan (1 token)": first_quota("capacity:long", 1),
    "all 524,288 tokens": first_quota("capacity:long", 524_288),
    "and a chunk of 24,576": first_quota("prefill", 24_576),
}
for what, quota in regimes.items():
    print(f"{what:<26}{quota / GIB:6.2f} GiB")

rich = planned[planned[QUOTA] >= regimes["and a chunk of 24,576"]]
ends = rich.iloc[[0, -1]]
slots_per_gib = ends["experts"].diff().iloc[1] / (ends[QUOTA].diff().iloc[1] / GIB)
print(f"{'expert slots a GiB above':<26}{slots_per_gib:6.0f}")

# %% [markdown]
# ## Context against quota
#
# With the context given instead, the largest chunk that fits, and the slots beside it. White: no
# plan at all.

# %%
grid = explore(Problem.load(CARD), {QUOTA: "3GiB:16GiB:256MiB", CONTEXT: "32768:524288:32768"})
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), dpi=80, sharey=True)
for axis, (column, label) in zip(
    axes, {"prefill": "prefill chunk (tokens)", "experts": "expert slots"}.items(), strict=True
):
    values = grid.pivot(index=CONTEXT, columns=QUOTA, values=column).astype("Float64")
    image = axis.pcolormesh(
        values.columns / GIB,
        values.index / 1024,
        values.to_numpy("float64", na_value=float("nan")),
        shading="nearest",
    )
    figure.colorbar(image, ax=axis, label=label)
    axis.axvline(FREE, color="tab:red", linestyle="--", linewidth=1)
    axis.set_xlabel("quota (GiB)")
axes[0].set_ylabel("context (Ki tokens)")
figure.tight_layout()
plt.show()

contexts = [65_536, 131_072, 262_144, 393_216, 524_288]
full = grid[(grid["prefill"] == 24_576) & grid[CONTEXT].isin(contexts)]
print("quota from which the whole chunk fits (GiB), by context")
print((full.groupby(CONTEXT)[QUOTA].min() / GIB).to_string(header=False))

# %% [markdown]
# On this card even the longest context does not touch the chunk: context costs slots, and nothing
# else. What a shorter context would buy at 15.4 GiB:

# %%
trade = explore(Problem.load(CARD), {CONTEXT: contexts})
print(trade[[CONTEXT, "prefill", "experts", "experts_in_prefill"]].to_string(index=False))

# %% [markdown]
# ## What the chunk costs
#
# Prefill may borrow expert slots for its staging (#796), so a large chunk costs slots while a
# prompt is read, and none in decode. Without lending it would cost them all the time.

# %%
chunks = "4096:24576:4096"
lending = explore(Problem.load(CARD), {CHUNK: chunks})
keeping = explore(Problem.load(CARD, ("experts.lend=null",)), {CHUNK: chunks})
figure, axis = plt.subplots(figsize=(8, 3.2), dpi=80)
axis.plot(lending["prefill"], lending["experts"], "o-", label="decode, lending")
axis.plot(lending["prefill"], lending["experts_in_prefill"], "s-", label="prefill, lending")
axis.plot(keeping["prefill"], keeping["experts"], "x--", label="both, without lending")
axis.set_xlabel("prefill chunk (tokens)")
axis.set_ylabel("expert slots")
axis.grid(alpha=0.3)
axis.legend()
figure.tight_layout()
plt.show()

costs = lending[["prefill", "experts", "experts_in_prefill"]].copy()
costs["without_lending"] = keeping["experts"]
print(costs.to_string(index=False))

# %% [markdown]
# ## Recommendation

# %%
(chosen,) = explore(Problem.load(CARD), {CONTEXT: [524_288]}).to_dict("records")
least = {what: float(round(quota / GIB, 2)) for what, quota in regimes.items()}
halved = trade.set_index(CONTEXT).loc[262_144, "experts"] - chosen["experts"]
print(f"context {chosen[CONTEXT]:,}, chunk {chosen['prefill']:,}, slots {chosen['experts']:,}")
print(f"slots that stay while a prompt is read: {chosen['experts_in_prefill']:,}")
print(f"slots that half the context would buy: {halved}")
print(f"GiB to spare before the chunk gives way: {FREE - least['and a chunk of 24,576']:.2f}")

# What the text below says.
assert (chosen["prefill"], chosen["experts"], chosen["experts_in_prefill"]) == (24576, 4592, 3562)
assert (halved, round(slots_per_gib)) == (793, 461)
assert list(lending["experts"]) == [4592] * 6
assert list(least.values()) == [2.29, 5.73, 7.95]

# %% [markdown]
# **Keep all of it: 524,288 tokens, a chunk of 24,576, and 4,592 expert slots**, of which 3,562 stay
# while a prompt is read.
#
# * The chunk of 4,096 that got the server started buys no slot in decode, since the staging is
#   lent, and makes prefill 18 % slower. Lower it only where the quota is below 7.95 GiB, which is
#   7.45 GiB less than this card has.
# * Half the context would buy 793 slots (17 %). If you never read more than 262,144 tokens, take
#   them; the chunk does not change.
# * Anything else that takes memory on this card costs 461 slots a GiB, but the server still starts.
#   Below 5.73 GiB the context no longer fits; below 2.29 GiB nothing does.
