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
from IPython.display import Image

from kvplan import Problem, explore
from kvplan.solver.cli import run
from kvplan.solver.frontier import frontier
from kvplan.solver.matrix import matrix

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

# %% [markdown]
# ## Cards and ranks
#
# `matrix` starts every combination on paper, by vLLM's rules, and counts the chats that its blocks
# hold. `kvplan matrix config.json --vary gpu=L40S,H200 ...` prints the same table. A dash: the
# engine refuses to start, because one request of 32,768 tokens does not fit; `reason` has its text.

# %%
table = matrix(
    ["config.json"],
    {
        "gpu": ["RTX 4090", "L40S", "A100-80GB", "H100-80GB", "H200"],
        "tensor-parallel-size": [1, 2, 4, 8],
        "kv-cache-dtype": ["auto", "fp8"],
    },
    arguments=["--max-model-len", "32768"],
    weights_gib=WEIGHTS_GIB,
    tokens=CHAT,
)
names = {"gpu": "card", "gpus": "ranks", "kv-cache-dtype": "KV", "requests": "chats"}
table = table.rename(columns=names)[["card", "ranks", "KV", "chats", "reason"]]
wide = table.pivot(index=["card", "KV"], columns="ranks", values="chats")
wide = wide.reindex(table["card"].unique(), level="card")
print(wide.astype(object).where(wide.notna(), "-").to_string())
print("\ntwo RTX 4090:", table.query("card == 'RTX 4090' and ranks == 2")["reason"].iloc[0])

# %% [markdown]
# ## Per card
#
# Twice the ranks hold more than twice the chats, since the weights are paid for once. What does a
# card contribute, by the size of the group?

# %%
figure, axis = plt.subplots(figsize=(8, 3.4), dpi=80)
groups = table[table["KV"] == "auto"].groupby("card", sort=False)
for marker, (card, rest) in zip(("o-", "s-", "^-", "v--", "D-"), groups, strict=True):
    known = rest.dropna(subset="chats")
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
printed = StringIO()
line = ["model", "config.json", "--json", "--gpu", "H100-80GB", "--tensor-parallel-size", "2"]
with redirect_stdout(printed):
    run([*line, "--weights-gib", str(WEIGHTS_GIB / 2), "--max-model-len", "32768"])
two = json.loads(printed.getvalue())["problem"]
print(two["name"])
problem = Problem.model_validate(two)
quota = min(rank.quota_bytes for rank in problem.ranks)
sweep = explore(problem, {"ranks.*.quota": [quota + gib * 2**30 for gib in (-4, -2, 0, 2)]})
sweep["GiB"] = (sweep["ranks.*.quota"] / 2**30).round(2)
sweep["chats"] = sweep["blocks:paged"] // (CHAT // 16)
print(sweep[["GiB", "status", "blocks:paged", "chats"]].to_string(index=False))

# %% [markdown]
# ## Chats against one long document
#
# The same two H100s shall also read one document of up to 131,072 tokens (with YaRN). How many
# chats does that cost? `frontier` finds every best trade-off: no plan has more of one without less
# of the other, and none is missing.

# %%
chats = {"name": "chat", "capacity": CHAT, "fit": "count", "count": 64}
document = {"name": "document", "capacity": 131_072, "fit": "capacity"}
both = {key: two[key] for key in ("version", "name", "ranks", "pools", "caches")}
both["batches"] = [{"name": "day", "requests": [chats, document]}]
both["goals"] = ["count:chat", "capacity:document"]
Path("both.json").write_text(json.dumps(both))
goals = ["count:chat", "capacity:document:1024"]
with redirect_stdout(StringIO()):
    run(["frontier", "both.json", "--goals", ",".join(goals), "--out", "front.png"])
front = frontier(Problem.load("both.json"), goals)  # the same as a table
print(front[["count:chat", "capacity:document"]].to_string(index=False))
Image("front.png")

# %% [markdown]
# To pass it on with the plan, the budget of each phase and the quota from which it fits, write one
# page that needs no network: `kvplan report both.json --out both.html`.

# %% [markdown]
# ## Beside other calculators
#
# The same question to the tools that people use, on 1 December 2026: four models, one request of
# 131,072 tokens, a bfloat16 cache, then how many such requests four H100s of 80 GB hold. First
# kvplan, with vLLM 0.33's rules. `by hand` is layers x heads x bytes, with nothing of an engine.
# Qwen3-32B declares 40,960 positions, so vLLM would refuse the length; its
# `VLLM_ALLOW_LONG_MAX_MODEL_LEN=1`, here a flag, allows it.

# %%
shared = {"torch_dtype": "bfloat16", "max_position_embeddings": 131_072}
configs = {
    "Llama-3.1-8B": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128_256,
    },
    "Qwen3-32B": config,
    "Qwen3-Next-80B-A3B": {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "full_attention_interval": 4,
        "head_dim": 256,
        "hidden_size": 2048,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_value_head_dim": 128,
        "num_attention_heads": 16,
        "num_hidden_layers": 48,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
    },
    "gpt-oss-120b": {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "head_dim": 64,
        "hidden_size": 2880,
        "layer_types": ["sliding_attention", "full_attention"] * 18,
        "num_attention_heads": 64,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "sliding_window": 128,
        "vocab_size": 201_088,
    },
}
LONG, GIB = 131_072, 2**30
weights_gib = dict(zip(configs, (14.96, 61.02, 151.47, 60.77), strict=True))  # of the checkpoints
for name, each in configs.items():
    Path(name).write_text(json.dumps(shared | each))


def by_hand(ranks):
    """Bytes of one request on a rank: 2 x heads x width x 2 bytes a token and layer, states."""
    delta = 36 * (32 * 128 * 128 * 4 + 3 * (2 * 16 + 32) * 128 * 2) // ranks  # float32, bfloat16
    return {
        "Llama-3.1-8B": 32 * LONG * 4 * 128 * 8 // ranks,
        "Qwen3-32B": 64 * LONG * 4 * 128 * 8 // ranks,
        "Qwen3-Next-80B-A3B": 12 * LONG * 4 * 256 * max(1, 2 // ranks) + delta,
        "gpt-oss-120b": 18 * (LONG + 128) * 4 * 64 * 8 // ranks,
    }


long = ["--max-model-len", str(LONG), "--allow-long-max-model-len"]
ranks = {"tensor-parallel-size": [1, 4]}
cache = matrix(list(configs), ranks, arguments=[*long, "--kv-cache-memory-bytes", str(64 * GIB)])
cache["GiB each"] = (cache["kv_bytes"] * LONG / cache["tokens"] / GIB).astype(float).round(3)
hand = [by_hand(gpus)[name] for name, gpus in zip(cache["model"], cache["gpus"], strict=True)]
cache["by hand"] = [round(count / GIB, 3) for count in hand]
print("KV of one request, on each GPU")
print(cache[["model", "gpus", "by hand", "GiB each"]].to_string(index=False))

four = {"gpu": ["H100-80GB"], "tensor-parallel-size": [4]}
held = matrix(list(configs), four, arguments=long, weights_gib=weights_gib)
print("\nRequests that four H100-80GB hold")
print(held[["model", "status", "requests", "tokens"]].to_string(index=False))

# What the tables below repeat.
assert list(cache["GiB each"]) == [16.0, 4.0, 32.002, 8.0, 3.076, 1.519, 5.067, 1.267]
assert list(held["requests"]) == [15, 6, 19, 40]

# %% [markdown]
# **KV of one request of 131,072 tokens, in GiB.** `1` is the whole model on one GPU, `TP4` a GPU
# of four. A dash: the tool does not print it, or was not asked.
#
# | tool | Llama-3.1-8B, 1 | Qwen3-32B, 1 / TP4 | Qwen3-Next, 1 / TP4 | gpt-oss-120b, 1 / TP4 |
# |---|---|---|---|---|
# | by hand | 16.000 | 32.000 / 8.000 | 3.072 / 1.518 | 4.504 / 1.126 |
# | kvplan, what vLLM charges | 16.000 | 32.002 / 8.000 | 3.076 / 1.519 | 5.067 / 1.267 |
# | kvfit 0.3.0 | 16.000 | 32.000 / 8.00 | 3.072 / 1.52 | 4.504 / 1.13 |
# | aiconfigurator 0.12.0 | 16.000 | - / 8.000 | not supported | 4.504 / 1.126 |
# | vramscout 0.7.0 | 16.0 | 32.0 / 8.0 | 12.0 / 6.0 | 9.0 / 2.25 |
# | llmfit 1.1.17 | 16.0 | 32.0 / - | 3.044 / - | 9.0 / - |
# | hf-vram-calc 1.0.9 | 16.00 | 20.00 / - | 6.00 / - | 6.33 / - |
#
# **Requests of 131,072 tokens that four H100s of 80 GB hold**, weights in bfloat16 (gpt-oss: MXFP4)
#
# | tool | Llama | Qwen3-32B | Qwen3-Next | gpt-oss-120b | taken off |
# |---|---|---|---|---|---|
# | kvplan, as vLLM 0.33 | 15 | 6 | 19 | 40 | 8 %, activations, graphs, non-torch |
# | kvfit | 17 | 7 | 22 | 50 | 10 %; its own text: an upper bound |
# | aiconfigurator, vLLM | 16 | 6 | - | 47 | its tables of activations, NCCL, other |
# | llmfit | 18 | 25 of 40,960 | 51 | 28 | one pool of 320 GB, no ranks |
#
# vramscout and hf-vram-calc don't count requests. No server was started for this, so nobody's count
# is measured here.
#
# * **Windows and states decide.** vramscout and llmfit charge gpt-oss's window layers the whole
#   context, vramscout Qwen3-Next's linear layers too; llmfit counts less state than by hand (0.044
#   instead of 0.072 GiB). hf-vram-calc takes hidden size / heads as the head size (80, 128 and 45
#   instead of 128, 256 and 64), counts all 48 layers of Qwen3-Next, and leaves the cache out of its
#   inference total.
# * **Engines charge more than the tensors.** vLLM 0.33 has two steps of 8,192 tokens in flight, and
#   gpt-oss's window layers keep both: 5.067, not 4.504. (Smaller differences: padding, and a share
#   of the reserved block.) Qwen3-Next's 2 KV heads are copied on four GPUs; kvfit and vramscout
#   count that as well.
# * **Qwen3-32B's config ends at 40,960 tokens.** kvfit refuses 131,072 until
#   `--allow-context-overflow`, vramscout says that it doesn't fit, llmfit counts requests of
#   40,960. kvplan and aiconfigurator don't object: check that yourself.
#
# **How they ran.** Without a network. kvfit reads only from the hub: its download function was
# replaced by a stand-in that gives configs, a list of layers and the sizes above. vramscout reads
# a local config, but a mixture of experts only with the hub's metadata: the number of experts was
# left out, so its weights don't count here. llmfit ran on its own database, with 320 GB of GPU
# memory and bfloat16 weights; its caches are those of `concurrency`, for Qwen3-32B of `plan`.
# aiconfigurator ran on its own configs and tables of the H100, Qwen3-Next from a local config; the
# counts are the largest batch without a warning, at 8,192 tokens of prompt a step. aisimulate
# 0.13.0, its successor, did not run: the package on PyPI fetches its wheel from pypi.nvidia.com,
# which was out of reach. hf-vram-calc built each model with PyTorch from a complete local config.
#
# | question | kvplan | who else |
# |---|---|---|
# | blocks and tokens as the engine will print them, or why it refuses | yes | the engine itself |
# | pools, prefill chunk, expert slots and context together, proven best | yes | nobody here |
# | what to change when nothing fits | each solved | llmfit: upgrades; vramscout: longest context |
# | every best trade-off between goals | yes | nobody here |
# | the table over cards, ranks and cache types | yes | kvfit, aiconfigurator: layouts |
# | figures checked against a server | its log | kvfit: calibrate; vramscout reads logs |
# | tokens a second, latency, disaggregated prefill | no | aiconfigurator; llmfit roughly |
# | this machine's hardware, found | no | llmfit, vramscout |
# | smallest machine for a target | in memory | kvfit: in users; aiconfigurator: in speed |
# | a model by its name, from a database or the hub | no | all five |
# | which model to take, quality, downloads | no | llmfit |
# | fine-tuning and LoRA memory | no | hf-vram-calc |
# | a probe of the installed engine | plug-in | kvfit: `--check-engine` |
#
# The engines' own planners were not run: vLLM's profile run and SGLang's static share need the
# cards and the weights, llama.cpp's fit the GGUF file. vLLM and SGLang measure at the start what
# kvplan estimates before it. Each sizes one start; none compares settings.

# %% [markdown]
# ## Recommendation

# The smallest group of each card for 40 chats at once:

# %%
enough = table[table["chats"] >= 40].drop(columns="reason")
enough = enough.groupby(["card", "KV"], sort=False).first()
for (card, kv), row in enough.iterrows():
    print(f"{card:<10} KV {kv:<5} {row['ranks']} cards hold {row['chats']:>3} chats")

# What the text below says.
assert list(enough.loc["H200", "auto"]) == [2, 46]
assert list(enough.loc["H100-80GB", "auto"]) == [4, 52]
assert list(enough.loc["L40S", "fp8"]) == [4, 43]
assert list(enough.loc["RTX 4090", "fp8"]) == [8, 41]
assert list(sweep["chats"]) == [16, 17, 18, 19]
assert list(front.iloc[-1][["count:chat", "capacity:document"]]) == [10, 131_072]

# %% [markdown]
# **For 40 chats of 16,384 tokens take two H200s**: 46 fit with a bfloat16 cache, and nothing about
# the answers changes.
#
# * Four L40S with `--kv-cache-dtype fp8` hold 43, eight RTX 4090s 41. Try the quality of fp8 first,
#   because neither has room to spare.
# * On H100s 40 chats take a group of four, with room for 52. Two of them stop at 18, or 36 in fp8.
# * A document of 131,072 tokens beside the chats leaves those two H100s 10 of their 18.
# * The estimates move a group of two H100s by one chat for each 2 GiB. Before you buy, start one
#   server, and give its log to `kvplan model --from-log`: then nothing is estimated.
