"""kvplan inside real KV-cache managers: what an engine's plug-in point calls at construction.

Nothing here is imported until an engine loads it, and no module imports an engine when it is
imported itself. Each engine's package has `question` (the engine's own objects -> a problem),
`apply` (a plan -> the engine's own type) and, where the engine has plug-ins, `register`.
"""
