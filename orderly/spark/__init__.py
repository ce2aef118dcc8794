"""Data pipelines on Spark: topics as DataFrames, in and out, and jobs over them (extra `spark`).

Users import from `source`, `sink`, `discovering`, `session` and `stamps`. Spark asks `data_source`,
which hands on to `readers` and `writers`. What runs on executors: `reading` and `decoding` (pulls
to record batches), `summary`; `encoding` and `sending` (rows to acknowledged messages).
"""
