"""Reports as one HTML file, to read on screen, to print and to keep.

`contents` is what any report says, `charts` draws, `page` makes the HTML of it; `backlog` is the
report of a snapshot, and Spark's jobs have theirs. Pure: equal input gives equal bytes. The page
and the charts need jinja2 and matplotlib, the extra `monitoring`.
"""
