"""`orderly spark`: jobs over topics, on this machine or on a cluster.

Nothing here imports pyspark before a job runs: `--help` needs neither it nor Java.
"""
