"""docs/how-to/performance.md: short runs; what they say about speed is not judged here."""

REPLACE = {
    "--duration 30s": "--duration 0.5s",
    "orderly bench -o": "orderly bench --messages 500 -o",
    "orderly bench --rate": "orderly bench --duration 1s --rate",
    "orderly bench consume": "orderly bench consume --messages 500",
    "$ orderly bench ": "$ orderly bench --messages 500 ",
    "$ orderly bench\n": "$ orderly bench --messages 5000\n",
}
