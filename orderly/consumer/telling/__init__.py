"""SHELL: values in which a consumer reports on itself: health and statistics."""
