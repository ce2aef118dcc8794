"""SHELL: handlers in processes of their own, behind `executor="process"`.

A worker process imports `child` and what that needs, so nothing here imports the client or the
consumer: they would double the time and the memory that each worker takes to start.
"""
