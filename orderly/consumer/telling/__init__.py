"""SHELL: what a consumer says of itself: explanations, health, statistics, a probe."""
