"""The arithmetic of need and bytes, and the nested search, over integers and arrays.

`instance` is the vocabulary, `need` and `bytes` the rules, `demand` the needs of batches, `nested`
and `ordered` the search. Nothing here knows the problem's models.
"""
