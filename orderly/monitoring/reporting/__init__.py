"""A report of the backlog as one HTML file, to read on screen, to print and to keep.

Pure: a snapshot goes in, text comes out, and equal input gives equal bytes. Needs jinja2 and
matplotlib, the extra `monitoring`.
"""
