"""A name server and brokers in this process: real frames, the real broker's answers, no JVM.

`cluster` is the whole state machine, pure: commands and a time in, commands out. It says which
request goes where. A broker's tables are in `state`, its messages in `store`. Requests of one kind
are a file: `sending`, `pulling`, `reading`, `membership`, `administration`, `name_server`. `server`
gives the cluster sockets and a clock, `broker` is the public class, `faults` is what a test lets go
wrong.
"""
