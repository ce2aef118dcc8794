"""PURE: what keeps the order. No socket, thread, clock, random or logging in here.

Objects are not thread-safe: the shell holds one lock per queue around them, decides, lets go of
the lock and then acts. Time is an argument: `now`, seconds on a clock that never goes back.
"""
