"""docs/how-to/performance.md: short runs; what they say about speed is not judged here."""

REPLACE = {
    "$ orderly bench      ": "$ orderly bench --count 500",
    "$ orderly bench\n": "$ orderly bench --count 5000\n",
    "bench -o json": "bench --count 500 -o json",
    "-n 20000": "-n 200",
    "--async\n": "--async -n 500\n",
    "--rate 1000": "--rate 1000 -n 500",
}
