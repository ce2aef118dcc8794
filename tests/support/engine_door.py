"""A way to the container engine that a test can shut: for clients the engine stopped then.

The engine itself goes on, so other tests are not disturbed, and what was left can be removed.
"""

import contextlib
import os
import socket
import threading

SOCKET = "/var/run/docker.sock"


class EngineDoor:
    """Passes connections on to the engine until it is shut. Thread-safe.

    Attributes:
        address: for DOCKER_HOST.
    """

    def __init__(self):
        self._engine = os.environ.get("DOCKER_HOST", "") or f"unix://{SOCKET}"
        self._open = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="engine-door", daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shut()

    def shut(self):
        """Refuse new connections and end the open ones."""
        for sock in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self):
        with contextlib.suppress(OSError):  # shut
            while True:
                client, _ = self._listener.accept()
                engine = self._connect()
                self._open += [client, engine]
                for ends in ((client, engine), (engine, client)):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()

    def _connect(self):
        scheme, _, where = self._engine.partition("://")
        if scheme == "unix":
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(where)
            return engine
        host, _, port = where.partition(":")
        return socket.create_connection((host, int(port)))


def _pass_on(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
