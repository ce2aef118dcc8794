"""Bytes to values and back: RocketMQ's remoting protocol without sockets, threads or clocks.

Names are imported from the modules: `frame` (commands), `codes`, `headers` and `ext` (typed
header fields), `bodies` and its siblings (JSON bodies), `stored_message` (pulled messages),
`outgoing` (batches, unique keys). Everything a peer sends wrongly is a ProtocolError.
"""
