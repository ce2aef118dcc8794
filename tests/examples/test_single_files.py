"""examples/listener.py and parking.py do what they say."""

import pytest

STEPS = ["created", "packed", "shipped"]
ORDERS = ["order-1", "order-2", "order-3", "order-4"]


@pytest.fixture
def run(start, orderly_namesrv):
    """Run an example to its end; returns what it printed."""

    def run_one(name):
        program = start(name, ORDERLY_NAMESRV=orderly_namesrv)
        assert program.process.wait(60) == 0, program.errors
        return program.lines

    return run_one


def test_a_listener_retries_and_gives_up_what_is_bad(run):
    lines = run("listener.py")
    for order in ORDERS:
        told = [line.split()[1] for line in lines if line.startswith(order)]
        assert told == [step for step in STEPS if (order, step) != ("order-2", "packed")]
    retried = [line for line in lines if "packed" in line]
    assert all(line.endswith("(attempt 3)") for line in retried)
    assert lines[-1].startswith("closed; dead letters")


def test_a_bad_order_is_parked_and_released(run):
    lines = run("parking.py")
    for order in ("order-1", "order-3", "order-4"):
        told = [line for line in lines[:9] if line.startswith(order)]
        assert told == [f"{order} {step}" for step in STEPS]
    assert lines[9:] == [
        "parked: [('order-2', 3)]",
        *(f"order-2 {step} (replayed)" for step in STEPS),
        "released: 3 messages of order-2",
    ]
