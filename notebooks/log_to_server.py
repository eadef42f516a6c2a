# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a start-up log to a running server
#
# vLLM 0.19.0 with Qwen3-8B does not start: 32,768 tokens of context, and 3.58 GiB left for the
# cache ([LMCache #1372](https://github.com/LMCache/LMCache/issues/1372)). What can be changed, and
# what does each change buy? The log and the model's `config.json` are enough to say, without a GPU
# and without another trial start.

# %%
import json
import os
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib.pyplot as plt

from kvplan.solver.cli import run

os.chdir(tempfile.mkdtemp())  # an empty folder for the files below


def kvplan(line, *more):
    """Run a command as a shell would, and return what it prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        run([*line.split(), *more])
    return printed.getvalue()


# %% [markdown]
# The end of the log, and the fields of the config that matter:

# %%
Path("server.log").write_text("""\
INFO 11-08 09:12:01 [api_server.py:1896] vLLM API server version 0.19.0
INFO 11-08 09:12:01 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', \
'max_model_len': 32768}
ValueError: To serve at least one request with the models's max seq len (32768), (4.50 GiB KV \
cache is needed, which is larger than the available KV cache memory (3.58 GiB). Based on the \
available memory, the estimated maximum model length is 26032.
""")
config = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "max_position_embeddings": 40960,
    "vocab_size": 151936,
    "torch_dtype": "bfloat16",
}
Path("config.json").write_text(json.dumps(config))
print(kvplan("check-log server.log"))

# %% [markdown]
# ## What would help
#
# `kvplan model` takes flags and readings from the log, and refuses as vLLM does. `kvplan explain`
# tries changes on that problem, and lists those that make it fit, in the engine's flags where it
# has one.

# %%
Path("server.yaml").write_text(kvplan("model config.json --from-log server.log"))
explanation = kvplan("explain server.yaml")
start = explanation.index("any one of these")
print(explanation[start : explanation.index("\nbudget of")])

# %% [markdown]
# ## What each change buys
#
# Flags that are typed win over those of the log. Each combination is a plan of its own, so the
# figures are those that vLLM would print.

# %%
WANTED = 32_768
changes = {
    "as it is": "",
    "--max-model-len 26032": "--max-model-len 26032",
    "--kv-cache-dtype fp8": "--kv-cache-dtype fp8",
    "fp8, --max-model-len 40960": "--kv-cache-dtype fp8 --max-model-len 40960",
}
tokens = {}
for name, flags in changes.items():
    answer = json.loads(kvplan(f"model config.json --from-log server.log {flags} --json"))
    figures = answer["figures"]
    tokens[name] = int(figures.get("GPU KV cache size", "0").split()[0].replace(",", ""))
    shown = [f"{key}: {value}" for key, value in figures.items() if "tokens per" in key]
    print(f"{name:<28}{tokens[name]:>7,} tokens  {''.join(shown) or 'refuses to start'}")

# %%
figure, axis = plt.subplots(figsize=(8, 2.6), dpi=80)
bars = axis.barh(list(tokens), list(tokens.values()), color="tab:blue")
axis.bar_label(bars, [f"{count:,}" if count else "refused" for count in tokens.values()], padding=4)
axis.axvline(WANTED, color="tab:red", linestyle="--", linewidth=1, label="one request, as asked")
axis.set_xlim(right=65_000)
axis.set_xlabel("tokens that the KV cache holds")
axis.invert_yaxis()
axis.legend(loc="upper right")
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Recommendation

# %%
print(kvplan("model config.json --from-log server.log --kv-cache-dtype fp8").split("version:")[0])

# What the text below says.
assert list(tokens.values()) == [0, 26_032, 52_080, 52_080]

# %% [markdown]
# **Start with `--kv-cache-dtype fp8`**: the cache then holds 52,080 tokens, 1.59 requests of full
# length, and even the model's own 40,960 tokens fit.
#
# * If the attention kernel of your card has no fp8 cache, or the quality suffers, take
#   `--max-model-len 26032`. It is the longest that starts in bfloat16, and one request fills it.
# * More of the card helps as well: 945 MiB more for the cache, from
#   `--gpu-memory-utilization`, fewer CUDA graphs or a smaller step. Log lines with those readings
#   let `kvplan model` try them too.
# * After the start, keep the log: `kvplan check-log --diff old.log new.log` says which change
#   moved the count.
