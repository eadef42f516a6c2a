# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A capacity table
#
# Qwen3-32B in bfloat16 is to serve chats of 16,384 tokens. How many at once, on which cards, and
# with how many of them? The answer of each start is a table here, before anybody rents a machine.

# %%
import json
import os
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from kvplan import Problem, explore
from kvplan.solver.cli import run

os.chdir(tempfile.mkdtemp())
config = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 5120,
    "max_position_embeddings": 40960,
    "vocab_size": 151936,
    "torch_dtype": "bfloat16",
}
Path("config.json").write_text(json.dumps(config))
WEIGHTS_GIB = 61.0  # of the checkpoint, all ranks together
CHAT = 16_384


def modelled(card, ranks, kv):
    """What vLLM would do on so many cards: `kvplan model --json`."""
    line = ["model", "config.json", "--json", "--gpu", card]
    line += ["--weights-gib", str(WEIGHTS_GIB / ranks), "--tensor-parallel-size", str(ranks)]
    printed = StringIO()
    with redirect_stdout(printed):
        run([*line, "--max-model-len", "32768", "--kv-cache-dtype", kv])
    return json.loads(printed.getvalue())


# %% [markdown]
# ## Cards and ranks
#
# `num_gpu_blocks` is what the engine would allocate; a chat takes 1,024 blocks of 16 tokens. A
# dash: the engine refuses to start, because one request of 32,768 tokens does not fit.

# %%
rows = []
for card in ("RTX 4090", "L40S", "A100-80GB", "H100-80GB", "H200"):
    for ranks in (1, 2, 4, 8):
        for kv in ("auto", "fp8"):
            blocks = modelled(card, ranks, kv)["figures"].get("num_gpu_blocks")
            chats = None if blocks is None else int(blocks) // (CHAT // 16)
            rows.append({"card": card, "ranks": ranks, "KV": kv, "chats": chats})
table = pd.DataFrame(rows).astype({"chats": "Int64"})
wide = table.pivot(index=["card", "KV"], columns="ranks", values="chats")
wide = wide.reindex(table["card"].unique(), level="card")
print(wide.astype(object).where(wide.notna(), "-").to_string())

# %% [markdown]
# ## Per card
#
# Twice the ranks hold more than twice the chats, since the weights are paid for once. What does a
# card contribute, by the size of the group?

# %%
figure, axis = plt.subplots(figsize=(8, 3.4), dpi=80)
groups = table[table["KV"] == "auto"].groupby("card", sort=False)
for marker, (card, rest) in zip(("o-", "s-", "^-", "v--", "D-"), groups, strict=True):
    known = rest.dropna()
    axis.plot(known["ranks"], known["chats"] / known["ranks"], marker, label=card)
axis.set_xscale("log", base=2)
axis.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
axis.set_xlabel("cards in the group (tensor parallel)")
axis.set_ylabel("chats of 16,384 tokens\nper card")
axis.set_ylim(bottom=0)
axis.grid(alpha=0.3)
axis.legend()
figure.tight_layout()
plt.show()

# %% [markdown]
# ## How sure is this
#
# Nobody measured activations, graphs and what lies outside the allocator; the problem names what it
# estimates. So take the problem of two H100s, and see how the answer moves with the quota:
# `explore` solves a row for each value.

# %%
two = modelled("H100-80GB", 2, "auto")
print(two["problem"]["name"])
problem = Problem.model_validate(two["problem"])
quota = min(rank.quota_bytes for rank in problem.ranks)
sweep = explore(problem, {"ranks.*.quota": [quota + gib * 2**30 for gib in (-4, -2, 0, 2)]})
sweep["GiB"] = (sweep["ranks.*.quota"] / 2**30).round(2)
sweep["chats"] = sweep["blocks:paged"] // (CHAT // 16)
print(sweep[["GiB", "status", "blocks:paged", "chats"]].to_string(index=False))

# %% [markdown]
# ## Recommendation

# The smallest group of each card for 40 chats at once:

# %%
enough = table[table["chats"] >= 40].groupby(["card", "KV"], sort=False).first()
for (card, kv), row in enough.iterrows():
    print(f"{card:<10} KV {kv:<5} {row['ranks']} cards hold {row['chats']:>3} chats")

# What the text below says.
assert list(enough.loc["H200", "auto"]) == [2, 46]
assert list(enough.loc["H100-80GB", "auto"]) == [4, 52]
assert list(enough.loc["L40S", "fp8"]) == [4, 43]
assert list(enough.loc["RTX 4090", "fp8"]) == [8, 41]
assert list(sweep["chats"]) == [16, 17, 18, 19]

# %% [markdown]
# **For 40 chats of 16,384 tokens take two H200s**: 46 fit with a bfloat16 cache, and nothing about
# the answers changes.
#
# * Four L40S with `--kv-cache-dtype fp8` hold 43, eight RTX 4090s 41. Try the quality of fp8 first,
#   because neither has room to spare.
# * On H100s 40 chats take a group of four, with room for 52. Two of them stop at 18, or 36 in fp8.
# * The estimates move a group of two H100s by one chat for each 2 GiB. Before you buy, start one
#   server, and give its log to `kvplan model --from-log`: then nothing is estimated.
