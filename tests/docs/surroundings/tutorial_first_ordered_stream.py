"""docs/tutorial/first-ordered-stream.md: the other terminals, and the fix that the reader makes."""

import json
import signal
import subprocess
import sys

from tests.support.waiting import eventually

BROKER = "own"
RUNNING = []


def before(page, block):
    if "orderly broker start" in block.text:
        page.cleanup(end_all)
    elif "orderly locks" in block.text:
        start_member(page)
        start_member(page)
        eventually(lambda: len(owners(page)) == 2, 60)
    elif "orderly send" in block.text:
        end_all(1)
    elif "orderly parked release" in block.text:
        end_all()
        mended = page.folder.joinpath("consume.py")
        mended.write_text(mended.read_text().replace('"mug": 9', '"mug": 9, "pot": 12'))
        start_member(page)
    elif "orderly broker stop" in block.text:
        end_all()


def after(page, block):
    if "orderly parked release" in block.text:
        said = page.folder.joinpath(f"said-{len(RUNNING) - 1}.txt")
        eventually(lambda: "order-9 paid 12" in said.read_text())
        assert said.read_text().index("order-9 created 12") < said.read_text().index("order-9 paid")


def start_member(page):
    with page.folder.joinpath(f"said-{len(RUNNING)}.txt").open("w") as said:
        command = [sys.executable, "consume.py"]
        RUNNING.append(subprocess.Popen(command, cwd=page.folder, stdout=said))


def end_all(but=0):
    """Press Ctrl-C in the terminals, but for that many."""
    running = [process for process in RUNNING if process.poll() is None]
    for process in running[but:]:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def owners(page):
    """Who has queues of the topic; nobody while one of them changes hands."""
    command = ["orderly", "locks", "-g", "shipping", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return set()
    locks = json.loads(done.stdout)["queues"]
    return {lock["owner"] for lock in locks if lock["topic"] == "orders"}
