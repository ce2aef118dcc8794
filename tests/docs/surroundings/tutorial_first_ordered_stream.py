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
        eventually(lambda: len(owners()) == 2, 60)
    elif "orderly parked list" in block.text:
        eventually(lambda: parked() == {"order-9": 2}, 60)
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
        eventually(lambda: "order-9 paid 12" in said.read_text(), 60)
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
        assert process.wait(60) == 0


def owners():
    """Who has queues of the topic; nobody while one of them changes hands."""
    locks = told("locks", "shipping").get("queues", [])
    return {lock["owner"] for lock in locks if lock["topic"] == "orders"}


def parked():
    """How many messages of which keys are parked."""
    return {
        each["key"]: each["messages"] for each in told("parked", "list", "shipping").get("keys", [])
    }


def told(*command):
    """What a command prints; nothing while it cannot say."""
    words = ["orderly", *command, "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}
