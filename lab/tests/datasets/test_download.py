import json
import os
import socket

import pytest

from posse.errors import DataFileError, FetchFailed, InvalidValue
from posse_lab.datasets import download as module
from posse_lab.datasets.download import download, forget

CONTENT = bytes(range(256)) * 800  # three chunks and a bit
OTHER = CONTENT[::-1]


@pytest.fixture
def partial(tmp_path):
    return tmp_path / "file.partial"


@pytest.fixture
def get(server, partial):
    server.content = CONTENT
    return lambda **settings: download(server.address, partial, pause=0.001, **settings)


def note(partial):
    return partial.with_name(partial.name + ".json")


def test_a_file_comes_whole(get, server, partial):
    calls = []

    assert get(progress=lambda done, total: calls.append((done, total))) is False

    assert partial.read_bytes() == CONTENT
    assert len(server.asked) == 1
    assert "Range" not in server.asked[0]
    assert server.asked[0]["User-Agent"].startswith("posse/")
    assert calls[0] == (0, len(CONTENT))
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert calls == sorted(calls)


def test_a_cut_connection_is_continued_where_it_broke(get, server, partial):
    server.cuts = [70_000, 50_000]

    assert get() is True

    assert partial.read_bytes() == CONTENT
    assert [asked.get("Range") for asked in server.asked] == [None, "bytes=70000-", "bytes=120000-"]
    assert [asked.get("If-Range") for asked in server.asked] == [None, server.etag, server.etag]


def test_a_later_call_continues_what_an_earlier_one_left(get, server, partial):
    server.cuts = [70_000, 0, 0, 0, 0, 0]
    with pytest.raises(FetchFailed, match=r"ended after 70,000 of 204,800 bytes; 70,000 bytes are kept, and the same"):
        get()
    # One try that brought bytes, and four in a row that brought none.
    assert len(server.asked) == 5
    server.cuts = []

    assert get() is True
    assert partial.read_bytes() == CONTENT
    assert server.asked[-1]["Range"] == "bytes=70000-"


def test_a_server_that_ignores_ranges_sends_all_again(get, server, partial):
    server.cuts = [70_000]
    server.ranges = False

    assert get() is False
    assert partial.read_bytes() == CONTENT
    assert server.asked[1]["Range"] == "bytes=70000-"


def test_a_server_that_ignores_ranges_and_always_breaks_is_given_up(get, server):
    server.ranges = False
    server.cuts = [70_000] * 50

    with pytest.raises(FetchFailed, match="ended after 70,000 of"):
        get()
    assert len(server.asked) == 5


@pytest.mark.parametrize("minds", [True, False])
@pytest.mark.parametrize("changes", ["etag", "modified"])
def test_a_file_that_changed_meanwhile_is_not_stitched_together(get, server, partial, minds, changes):
    server.cuts = [70_000]
    server.minds_if_range = minds
    if changes == "modified":
        server.etag = None

    def change():
        server.content = OTHER
        setattr(server, changes, '"two"' if changes == "etag" else "Tue, 07 Jul 2004 10:00:00 GMT")

    server.after = change

    assert get() is False
    assert partial.read_bytes() == OTHER


def test_another_size_is_another_file_even_if_the_server_says_nothing_else(get, server, partial):
    server.cuts = [70_000]
    server.minds_if_range = False
    server.after = lambda: setattr(server, "content", OTHER + b"more")

    assert get() is False
    assert partial.read_bytes() == OTHER + b"more"


def test_a_continuation_that_starts_elsewhere_is_not_used(get, server, partial):
    server.cuts = [70_000]
    server.shift = 5

    assert get() is False
    assert partial.read_bytes() == CONTENT


def test_a_part_that_nobody_asked_for_is_refused(get, server):
    server.statuses = [206]

    with pytest.raises(FetchFailed, match="the server answers 206"):
        get()


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_word_about_the_version_nothing_is_continued(get, server, partial, etag):
    server.cuts = [70_000]
    server.etag, server.modified = etag, None

    assert get() is False
    assert partial.read_bytes() == CONTENT
    assert "Range" not in server.asked[1]


def test_a_weak_etag_leaves_the_date(get, server, partial):
    server.cuts = [70_000]
    server.etag = 'W/"weak"'

    assert get() is True
    assert server.asked[1]["If-Range"] == server.modified


def test_bytes_of_another_address_are_not_continued(get, server, partial):
    server.cuts = [70_000, 0, 0, 0, 0, 0]
    with pytest.raises(FetchFailed):
        get()
    server.cuts, server.content = [], OTHER

    assert download(server.address + "/other", partial, pause=0.001) is False
    assert partial.read_bytes() == OTHER


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"address": 1', "\xff"])
def test_bytes_without_a_readable_note_are_not_continued(get, server, partial, text):
    partial.write_bytes(b"who knows")
    note(partial).write_text(text)

    assert get() is False
    assert partial.read_bytes() == CONTENT


def leave(server, partial, content, size):
    """What an earlier try may have left."""
    partial.write_bytes(content)
    known = {"address": server.address, "etag": server.etag, "modified": server.modified, "size": size}
    note(partial).write_text(json.dumps(known))


def test_a_finished_download_is_not_asked_for_again(get, server, partial):
    leave(server, partial, CONTENT, len(CONTENT))

    assert get() is True
    assert server.asked == []


def test_a_refused_range_of_a_complete_file_means_done(get, server, partial):
    leave(server, partial, CONTENT, None)

    assert get() is True
    assert partial.read_bytes() == CONTENT
    assert len(server.asked) == 1


def test_a_refused_range_of_too_long_a_file_means_a_new_start(get, server, partial):
    leave(server, partial, CONTENT + b"too much", None)

    assert get() is False
    assert partial.read_bytes() == CONTENT
    assert "Range" not in server.asked[1]


def test_passing_trouble_is_waited_for(get, server, partial):
    server.statuses = [503, 429, 500]

    get()

    assert partial.read_bytes() == CONTENT
    assert len(server.asked) == 4


def test_lasting_trouble_is_told(get, server, partial):
    server.statuses = [503] * 10

    with pytest.raises(FetchFailed, match=r"cannot download http://127.*: the server answers 503"):
        get()
    assert not partial.exists()


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_not_tried_again(get, server, code):
    server.statuses = [code] * 2

    with pytest.raises(FetchFailed, match=f"the server answers {code}"):
        get()
    assert len(server.asked) == 1


def test_an_odd_answer_is_refused(get, server):
    server.statuses = [204]

    with pytest.raises(FetchFailed, match="the server answers 204"):
        get()


def test_a_server_that_says_nothing_runs_into_the_time_out(get, server):
    server.stall = 0.5

    with pytest.raises(FetchFailed, match="timed out"):
        get(timeout=0.05)


def test_nobody_at_home(server, partial):
    # A port that was just given back.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(FetchFailed, match=rf"cannot download http://127\.0\.0\.1:{port}/x: .*refused"):
        download(f"http://127.0.0.1:{port}/x", partial, pause=0.001)


def test_pauses_grow(get, server, monkeypatch):
    pauses = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    server.statuses = [503] * 10

    with pytest.raises(FetchFailed):
        get()
    assert pauses == [0.001, 0.002, 0.004]


def test_without_a_length_the_end_is_the_end(get, server, partial):
    server.says_length = False
    calls = []

    get(progress=lambda done, total: calls.append(total))

    assert partial.read_bytes() == CONTENT
    assert set(calls) == {None}


@pytest.mark.parametrize("says", [True, False])
def test_more_than_any_dataset_is_refused(get, server, partial, monkeypatch, says):
    monkeypatch.setattr(module, "LARGEST", 100_000)
    server.says_length = says
    calls = []

    with pytest.raises(FetchFailed, match=r"more than any dataset known here"):
        get(progress=lambda done, total: calls.append(done))
    # A size that is announced is enough to refuse; otherwise the limit is where reading ends.
    assert calls == [] if says else max(calls) <= 100_000
    assert not partial.exists()
    assert not note(partial).exists()


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://example.org/x", "example.org/x", "http://", ""])
def test_only_web_addresses_are_asked(partial, address):
    with pytest.raises(InvalidValue, match="address must start with http"):
        download(address, partial)


def test_an_address_with_a_blank_is_refused(partial):
    with pytest.raises(InvalidValue, match="cannot be used"):
        download("http://127.0.0.1:1/a b", partial)


def test_a_folder_that_cannot_be_written_is_our_error(get, server, partial):
    partial.mkdir()

    with pytest.raises(DataFileError, match=r"cannot write .*file\.partial"):
        get()


def test_an_interrupted_download_keeps_its_bytes(get, server, partial):
    def stop(done, total):
        if done > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(progress=stop)
    kept = partial.stat().st_size
    assert 0 < kept < len(CONTENT)

    assert get() is True
    assert partial.read_bytes() == CONTENT
    assert server.asked[-1]["Range"] == f"bytes={kept}-"


def test_forgetting_leaves_nothing(get, partial):
    get()

    forget(partial)

    assert os.listdir(partial.parent) == []
