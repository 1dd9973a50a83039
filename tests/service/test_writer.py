"""Group commit: what waits is written together and answered when it is on disk."""

import asyncio
import threading
import time

import pytest

from posse.errors import PosseError, StorageUnavailable
from posse.service.writer import Writer
from posse.storage import ACCEPTED, CONFLICT, SAME, UNKNOWN, NewDecision, NewReward, open_storage

BODY = '{"context": {}, "eligible": ["a"], "probabilities": [1.0], "mean": [0.0], "sd": [1.0]}'


def decision(number, task="t", fleet="f", **rest):
    return NewDecision(fleet, f"d-{number}", 1000.0 + number, task, "a", 1.0, BODY, "p", "v", **rest)


class Slow:
    """A real storage that can be held up, watched and broken."""

    def __init__(self, storage):
        self.storage = storage
        self.open = threading.Event()
        self.open.set()
        self.inside = threading.Event()
        self.sizes = []
        self.failure = None

    def write(self, groups):
        self.inside.set()
        self.open.wait(10)
        self.sizes.append(len(groups))
        if self.failure is not None:
            raise self.failure
        return self.storage.write(groups)


@pytest.fixture
def slow(tmp_path):
    storage = open_storage(tmp_path / "posse.db")
    storage.create_fleet("f", {"arms": ["a"], "retired": [], "time_to_live": 1000.0}, 0.0)
    yield Slow(storage)
    storage.close()


@pytest.fixture
def learned():
    return []


@pytest.fixture
def writer(slow, learned):
    writer = Writer(slow, learned.append, waiting=50)
    yield writer
    slow.open.set()
    writer.close()


def held_up(slow, writer, groups):
    """Write one group, and while it is held up all others; return what came of each."""

    async def ask():
        slow.open.clear()
        slow.inside.clear()
        first = asyncio.ensure_future(writer.write([decision(0)]))
        while not slow.inside.is_set():
            await asyncio.sleep(0.001)
        rest = [asyncio.ensure_future(writer.write(group)) for group in groups]
        await asyncio.sleep(0.01)
        slow.open.set()
        return await asyncio.wait_for(asyncio.gather(first, *rest, return_exceptions=True), 120)

    return asyncio.run(ask())


def kinds(answers):
    return [[outcome.kind for outcome in outcomes] for outcomes in answers]


def test_what_waits_is_written_together(slow, writer, learned):
    groups = [[decision(i)] for i in range(1, 41)]
    answers = held_up(slow, writer, groups)
    assert slow.sizes == [1, 40]
    assert kinds(answers) == [[ACCEPTED]] * 41
    assert len(slow.storage.decisions("f")) == 41
    assert len(learned) == 2


def test_groups_of_one_commit_get_their_own_answers(slow, writer):
    answers = held_up(
        slow,
        writer,
        [
            [decision(1, key="k", digest="x"), decision(2)],
            [decision(3, key="k", digest="x")],
            [decision(4, key="k", digest="y")],
            [NewReward("d-0", 1.0, 1001.0)],
            [NewReward("d-0", 2.0, 1001.0)],
            [NewReward("none", 1.0, 1001.0), decision(5)],
            [decision(6, fleet="none")],
        ],
    )
    found = kinds(answers)[1:]
    assert found[0] == [ACCEPTED, ACCEPTED]
    assert found[1] == [SAME]
    assert found[2:5] == [[CONFLICT], [ACCEPTED], [CONFLICT]]
    assert found[5][0] == UNKNOWN
    assert found[6] == [UNKNOWN]
    assert {row.id for row in slow.storage.decisions("f")} == {"d-0", "d-1", "d-2"}


def test_an_answer_comes_after_it_is_on_disk_and_learned(slow, learned):
    order = []

    def learn(written):
        order.append("learned")
        # Another connection sees it by now.
        assert slow.storage.decision("d-1") is not None
        learned.append(written)

    writer = Writer(slow, learn)
    asyncio.run(writer.write([decision(1)]))
    order.append("answered")
    assert order == ["learned", "answered"]
    writer.close()


def test_a_failure_of_the_storage_reaches_everybody_who_waits(slow, writer, learned):
    slow.failure = StorageUnavailable("the disk is full; free some space")
    answers = held_up(slow, writer, [[decision(i)] for i in range(1, 20)])
    assert len(answers) == 20
    assert all(isinstance(answer, StorageUnavailable) for answer in answers)
    assert all("full" in str(answer) for answer in answers)
    assert len({id(answer) for answer in answers}) == 20
    assert learned == []
    slow.failure = None
    assert kinds([asyncio.run(writer.write([decision(1)]))]) == [[ACCEPTED]]


def test_an_unexpected_failure_is_answered_without_its_message(slow, writer, caplog):
    slow.failure = RuntimeError("secret of the house")
    (answer, *_) = held_up(slow, writer, [])
    assert isinstance(answer, PosseError)
    assert "secret" not in str(answer)
    assert "secret of the house" in caplog.text
    slow.failure = None
    assert kinds([asyncio.run(writer.write([decision(1)]))]) == [[ACCEPTED]]


def test_a_group_that_cannot_be_stored_harms_no_other(slow, writer):
    odd = decision(2, task="\ud800")
    answers = held_up(slow, writer, [[decision(1)], [odd], [decision(3)]])
    assert kinds([answers[0], answers[1], answers[3]]) == [[ACCEPTED]] * 3
    assert isinstance(answers[2], PosseError)
    assert {row.id for row in slow.storage.decisions("f")} == {"d-0", "d-1", "d-3"}


def test_what_cannot_be_learned_at_once_is_acknowledged_all_the_same(slow, caplog):
    def refuse(_):
        raise RuntimeError("no")

    writer = Writer(slow, refuse)
    assert kinds([asyncio.run(writer.write([decision(1)]))]) == [[ACCEPTED]]
    assert "could not be learned" in caplog.text
    assert kinds([asyncio.run(writer.write([decision(2)]))]) == [[ACCEPTED]]
    writer.close()


def test_what_cannot_be_counted_is_answered_all_the_same(slow, caplog):
    def refuse(_):
        raise OSError(28, "No space left on device")

    writer = Writer(slow, lambda _: None, measured=refuse)

    def write(number):
        return asyncio.run(asyncio.wait_for(writer.write([decision(number)]), 120))

    assert kinds([write(1)]) == [[ACCEPTED]]
    assert writer.disk.problem is None
    slow.failure = StorageUnavailable("the disk is full; free some space")
    with pytest.raises(StorageUnavailable, match="full"):
        write(2)
    slow.failure = None
    assert kinds([write(2)]) == [[ACCEPTED]]
    assert caplog.text.count("could not be counted") == 3
    writer.close()


def test_a_full_queue_refuses_with_try_again(slow, writer):
    answers = held_up(slow, writer, [[decision(i)] for i in range(1, 71)])
    refused = [answer for answer in answers if isinstance(answer, StorageUnavailable)]
    assert len(refused) == 20
    assert "try again" in str(refused[0])
    assert len(slow.storage.decisions("f")) == 51


def test_those_who_have_gone_disturb_nobody(slow, writer):
    async def ask():
        slow.open.clear()
        impatient = asyncio.ensure_future(writer.write([decision(1)]))
        await asyncio.sleep(0.01)
        impatient.cancel()
        patient = asyncio.ensure_future(writer.write([decision(2)]))
        await asyncio.sleep(0.01)
        slow.open.set()
        return await asyncio.wait_for(patient, 120)

    assert kinds([asyncio.run(ask())]) == [[ACCEPTED]]


def test_closing_writes_what_waits_and_refuses_what_comes_after(slow, learned):
    writer = Writer(slow, learned.append)

    async def ask():
        slow.open.clear()
        waiting = [asyncio.ensure_future(writer.write([decision(i)])) for i in range(5)]
        await asyncio.sleep(0.02)
        closing = threading.Thread(target=writer.close)
        closing.start()
        while not writer._closed:
            await asyncio.sleep(0.001)
        with pytest.raises(StorageUnavailable):
            await writer.write([decision(99)])
        slow.open.set()
        answers = await asyncio.wait_for(asyncio.gather(*waiting), 120)
        closing.join()
        return answers

    assert kinds(asyncio.run(ask())) == [[ACCEPTED]] * 5
    with pytest.raises(StorageUnavailable):
        writer.run(lambda: 1)
    writer.close()


@pytest.mark.parametrize("kind", ["job", "group"])
def test_nobody_waits_for_ever_for_a_writer_that_is_closed_meanwhile(slow, learned, kind):
    for attempt in range(20):
        writer = Writer(slow, learned.append)
        ended = []

        def ask(writer=writer, ended=ended, attempt=attempt):
            try:
                for number in range(10_000):
                    if kind == "job":
                        writer.run(lambda: 1)
                    else:
                        asyncio.run(writer.write([NewReward(f"none-{attempt}-{number}", 1.0, 1.0)]))
            except StorageUnavailable:
                ended.append("refused")

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.01)
        writer.close()
        for thread in threads:
            thread.join(60)
        assert ended == ["refused"] * 4


def test_many_loops_may_write(slow, writer):
    found = []

    def one(number):
        found.append(asyncio.run(writer.write([decision(number)])))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds(found) == [[ACCEPTED]] * 8
    assert writer.waiting == 0


def test_commits_are_shared_under_load(slow, writer):
    """Far fewer transactions than requests, or a disk that syncs slowly could not keep up."""

    async def ask():
        for begin in range(0, 400, 40):
            await asyncio.gather(*(writer.write([decision(begin + i)]) for i in range(40)))

    asyncio.run(ask())
    assert sum(slow.sizes) == 400
    assert len(slow.sizes) < 100
