"""Jobs over topics: each a function that takes a session and settings, and leaves a report.

What they share is here: where results go (`output`, `files`), what they were made from
(`origin`), how far they are (`progress`).
"""
