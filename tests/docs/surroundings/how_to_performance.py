"""docs/how-to/performance.md: short runs; what they say about speed is not judged here."""

REPLACE = {
    "$ orderly bench      ": "$ orderly bench --count 500",
    "$ orderly bench\n": "$ orderly bench --count 5000\n",
    "bench -o json": "bench --count 500 -o json",
    "--duration 30s": "--duration 0.5s",
    "--rate 1000": "--rate 1000 --duration 1s",
    "bench consume": "bench consume --count 500",
}
