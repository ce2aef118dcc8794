"""Stand-ins for what the reader of a page has around its blocks."""

import threading


class Recorder:
    """Any method may be called on it; `calls` are (name, arguments, keyword arguments).

    It may be called itself, too: then the name is "".
    """

    def __init__(self):
        self.calls = []
        self._lock = threading.Lock()

    def __call__(self, *args, **named):
        self._note("", args, named)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **named: self._note(name, args, named)

    def _note(self, name, args, named):
        with self._lock:
            self.calls.append((name, args, named))
