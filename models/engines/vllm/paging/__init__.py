"""How vLLM groups layers and lays them into pages, by version."""
