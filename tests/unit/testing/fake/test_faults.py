from orderly.protocol.frame import request
from orderly.testing import Cut, DropRequest, Fail, Fault
from orderly.testing.fake.faults import Script


def decisions(script, *codes):
    return [script.decide(request(code)) for code in codes]


def test_a_fault_is_for_its_code_and_so_many_requests():
    script = Script()
    script.add(Fault(41, Cut(), times=2))
    assert decisions(script, 41, 42, 41, 41) == [Cut(), None, Cut(), None]


def test_without_a_number_it_is_for_all():
    script = Script()
    script.add(Fault(41, Cut(), times=None))
    assert decisions(script, *[41] * 5) == [Cut()] * 5


def test_the_older_fault_goes_first():
    script = Script()
    script.add(Fault(41, Fail(2)))
    script.add(Fault(41, DropRequest(), times=None))
    assert decisions(script, 41, 41) == [Fail(2), DropRequest()]


def test_requests_that_do_not_fit_are_spared_and_not_counted():
    script = Script()
    script.add(Fault(11, Cut(), when=lambda command: command.ext.get("queueId") == "3"))
    assert script.decide(request(11, {"queueId": "1"})) is None
    assert script.decide(request(11, {"queueId": "3"})) == Cut()


def test_all_are_cleared():
    script = Script()
    script.add(Fault(41, Cut()))
    script.clear()
    assert decisions(script, 41) == [None]
