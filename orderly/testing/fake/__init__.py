"""A name server and brokers in this process: real frames, the real broker's answers, no JVM.

`cluster` is the whole state machine, pure: commands and a time in, commands out. Its parts are
one table each (`locks`, `offsets`, `members`, `store`, `topics`, …) and one room of requests each
(`sending`, `pulling`, `reading`, `membership`, `administration`, `relaying`, `routing`); `dispatch`
says which request goes where. `server` gives it sockets and a clock, `broker` is the public class.
"""
