"""A topic as Parquet files, run after run, without a message lost or doubled."""
