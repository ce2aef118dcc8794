"""Data pipelines on Spark: topics as DataFrames, in and out, and jobs over them (extra `spark`)."""
