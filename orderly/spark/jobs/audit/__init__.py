"""Is a topic in order? Every key's messages judged over all of a topic's history.

`merging`, `keys` and `evidence` say it in Spark's terms; `figures` and `report` are pure.
"""
