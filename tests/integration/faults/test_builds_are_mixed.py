"""Members of a former build beside members of this one, by key, with kills: order and nothing lost.

The former build is the commit before state records told of windows, landmarks and generations. Its
members pass those fields over and write none. Its sources come from the repository's history;
without that the test is not collected (`conftest`).
"""

import io
import subprocess
import tarfile

import pytest

from orderly.protocol.state_record import Entry
from orderly.testing import judge
from tests.support.brokers import SHORT, leasing_broker
from tests.support.consuming import unique
from tests.support.members import MemberProcess, by_lane
from tests.support.programs import FORMER, ROOT
from tests.support.topics import records
from tests.support.traffic import KEYS, Traffic
from tests.support.waiting import eventually, patient_client

ROUNDS = 3
BY_KEY = ["--order=key", "--concurrency=4", "--commit=0.5"]
AHEAD = [*BY_KEY, f"--stuck={KEYS[7]}"]  # so that much is finished above what waits


@pytest.fixture(scope="module")
def former(tmp_path_factory):
    """A member process of the former build."""
    root = tmp_path_factory.mktemp("former")
    command = ["git", "archive", "--format=tar", FORMER, "orderly", "tests"]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as sources:
        sources.extractall(root, filter="data")

    class FormerMember(MemberProcess):
        program = "tests.support.member"  # as it was called then

    FormerMember.root = root
    return FormerMember


def builds(client, group, topic):
    """Of which builds entries are on record."""
    queues = client.routes.refresh(topic).read_queues()
    found = [record for queue in queues for _, record in records(client, group, queue)]
    told = {bool(entry.token_time) for entry in found if isinstance(entry, Entry)}
    return {"present" if each else "former" for each in told}


@pytest.mark.needs("git")
def test_either_build_goes_on_where_the_other_was_killed(orderly_broker, former, closing):
    broker = closing(leasing_broker(SHORT))
    topic, group = unique("topic"), unique("group")
    client = closing(patient_client(broker.namesrv))
    client.admin.create_topic(topic, 8)
    traffic = closing(Traffic(broker, broker.namesrv, SHORT, group, topic, members=0, pause=0.005))

    def join(kind, options=AHEAD):
        return traffic.join_process(kind, more=options)

    members = [join(former), join(MemberProcess)]
    for turn in range(ROUNDS):
        eventually(lambda: traffic.settled(members), within=60)
        traffic.goes_on(300)
        members.pop(0).kill()
        members.append(join(former if turn % 2 else MemberProcess))
    eventually(lambda: traffic.settled(members), within=60)
    heirs = [join(former, BY_KEY), join(MemberProcess, BY_KEY)]
    for member in members:  # one of each build closes, and hands on
        member.close()
    eventually(lambda: traffic.settled(heirs), within=60)
    traffic.finish()
    verdict = judge(by_lane(traffic.writer.sent), by_lane(traffic.deliveries()))
    assert verdict.ok, verdict
    assert not traffic.wrong_commits(), traffic.wrong_commits()
    assert builds(client, group, topic) == {"former", "present"}
