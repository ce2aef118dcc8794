"""Benchmarks of the Spark pipeline: CPU against floors of the same run."""
