"""What a run was made on: the machine, and the versions of everything that took part."""

import hashlib
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

from orderly.compiled import COMPILED
from orderly.native.library import VARIABLE
from orderly.testing.jars import listed_jars
from orderly.testing.java import find_java


def about(load_before, grpc, native):
    """Name -> text, in the order it is to be read.

    Args:
        load_before: the machine's load before anything was started.
        grpc, native: the releases of these clients.
    """
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory():.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "load of the last minute, before the run": f"{load_before:.2f}",
        "Python": platform.python_version(),
        "compiled": "yes" if COMPILED else "no",
        "Java of the broker": _java(find_java()),
        "Java of the client and the proxy": _java(shutil.which("java")),
        "broker, proxy, Java client": _rocketmq(),
        "rocketmq-python-client (gRPC)": grpc,
        "rocketmq-client-python (native)": native,
        "librocketmq": _library(),
    }


def _processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _memory():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _java(command):
    if command is None:
        return "none on PATH"
    done = subprocess.run([command, "-version"], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1].strip()


def _rocketmq():
    return next(jar.path.split("/")[-2] for jar in listed_jars() if "rocketmq-broker" in jar.path)


def _library():
    path = os.environ.get(VARIABLE)
    if not path:
        return f"none: {VARIABLE} is not set"
    content = Path(path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:12]
    return f"{len(content):,} bytes, SHA-256 {digest}…"
