"""Connections to brokers and name servers, and the two clocks that drive background work.

Shell code: sockets, threads and time live here. What the bytes mean is `orderly.protocol`'s
business; which requests exist, and when they are sent, is `orderly.client`'s.
"""
