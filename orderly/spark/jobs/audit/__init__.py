"""Is a topic in order? Every key's messages judged over all of a topic's history.

`run` is the job; `judging` says it in Spark's terms; `figures` and `report` are pure.
"""
