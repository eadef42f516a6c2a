"""The arithmetic of need and bytes, and the nested search, over integers and arrays.

`instance` is the vocabulary, `need` and `bytes` the rules, `demand` the needs of batches,
`evaluate` a point's blocks and bytes, `largest` the one step of every search; `search`, `arrays`
and `triton` search one instance, many scenarios, and many in one launch. Nothing here knows the
problem's models.
"""
