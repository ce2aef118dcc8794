"""docs/how-to/exporter.md: the documented port may be taken here."""

from orderly.testing.ports import free_port

REPLACE = {
    "orderly exporter": (
        exporter := f"orderly exporter --listen 127.0.0.1:{(port := free_port())}"
    ),
    "127.0.0.1:9788": f"127.0.0.1:{port}",
}
