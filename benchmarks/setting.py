"""What benchmarks of one process share: a broker's address, the size of the work, fresh topics."""

import time
from dataclasses import dataclass, field

from orderly.client import Client


@dataclass
class Setting:
    """One run: the broker it measures on and the size of the work."""

    namesrv: str
    client: Client
    count: int
    size: int
    rounds: int
    _topics: int = field(default=0)

    def topic(self, queues=8):
        """A fresh topic."""
        self._topics += 1
        name = f"bench-{time.time_ns():x}-{self._topics}"
        self.client.admin.create_topic(name, queues)
        return name
