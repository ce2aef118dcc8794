"""`orderly send` of a file, and results in the order of sending; the rest: `golden/send.txt`."""

from concurrent.futures import Future
from types import SimpleNamespace

from orderly.cli.root import run
from orderly.cli.send import in_order
from tests.unit.cli.golden.send import world


def test_a_file(tmp_path):
    path = tmp_path / "body"
    path.write_bytes(b"one\ntwo\n")
    with world() as asked:
        assert run(["send", "orders", "--file", str(path)]) == 0
        assert run(["send", "orders", "--file", str(path), "--lines"]) == 0
    assert [line for line in asked if line.startswith("(")] == [
        rf"('orders', b'{body}', None, None), {{}}" for body in (r"one\ntwo\n", "one", "two")
    ]


def test_results_come_in_the_order_of_sending_and_few_are_awaited():
    handed_over = []

    def give(*futures):
        for future in futures:
            handed_over.append(future)
            yield future

    late = [SimpleNamespace(done=lambda: False, result=lambda n=n: n) for n in range(4)]
    results = in_order(give(*late), in_flight=2)
    assert (next(results), len(handed_over)) == (0, 2)
    assert list(results) == [1, 2, 3]
    there = Future()
    there.set_result("there")
    assert next(in_order(give(there, *late), in_flight=2)) == "there"
    assert len(handed_over) == 5, "no other was asked for before it was told"
