"""Bytes to values and back: RocketMQ's remoting protocol without sockets, threads or clocks.

One module an API (`send`, `pull`, `offsets`, `locks`, `heartbeat`, `route`, `topics`, `groups`,
`statistics`, `members`) with its headers and bodies, both ways; below them `frame`, `codes`, `ext`
(typed header fields), `body` (typed fields of JSON) and `java_json`; `stored_message` (what a pull
brings), `state_record` and `park_record` (ours). Everything that a peer sends wrongly is a
ProtocolError.
"""
