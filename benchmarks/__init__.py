"""Side-by-side measurements. Each module runs as `python -m benchmarks.NAME [--json]`.

Sides alternate within one run on one broker; what counts is the ratio of their medians, not the
absolute rate of a noisy machine.
"""
