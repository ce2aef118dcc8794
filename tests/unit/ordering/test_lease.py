"""A lease is trusted for its time, counted from the request, and never comes back."""

from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.lease import Lease

moments = st.floats(0, 1e6)


@given(moments, st.floats(0, 100))
def test_it_is_trusted_for_thirty_seconds_from_the_request(asked_at, age):
    lease = Lease(asked_at, trust=30)
    moment = asked_at + age
    assert lease.valid(moment) == (moment - asked_at < 30)


@given(st.lists(moments, min_size=1))
def test_a_late_answer_to_an_older_request_never_shortens_it(renewals):
    lease = Lease(renewals[0], trust=30)
    for asked_at in renewals:
        lease.renew(asked_at)
    assert lease.renewed_at == max(renewals)


def test_a_lost_lease_stays_lost_even_when_a_renewal_arrives_later():
    lease = Lease(0, trust=30)
    lease.lose()
    lease.renew(10)
    assert not lease.valid(11)


def test_a_lease_that_ran_out_is_not_brought_back_by_a_renewal():
    lease = Lease(0.0, 30.0)
    lease.renew(30.0)
    assert not lease.valid(30.0)
    lease.renew(31.0)
    assert not lease.valid(31.0)
