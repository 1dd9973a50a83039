"""Small files in the official formats, a web server that misbehaves on demand, and the folder with the real files."""

import contextlib
import os
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat


@pytest.fixture
def letter_rows():
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 26, 40)
    return labels, rng.integers(0, 16, (40, 16))


@pytest.fixture
def letter_folder(tmp_path, letter_rows):
    labels, X = letter_rows
    lines = [",".join([chr(65 + label), *map(str, row)]) for label, row in zip(labels, X, strict=True)]
    (tmp_path / "letter").mkdir()
    (tmp_path / "letter" / "letter-recognition.data").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def sarcos_table():
    return np.random.default_rng(5).normal(size=(30, 28)) * 3 + 1


@pytest.fixture
def sarcos_folder(tmp_path, sarcos_table):
    (tmp_path / "sarcos").mkdir()
    savemat(tmp_path / "sarcos" / "sarcos_inv_test.mat", {"sarcos_inv_test": sarcos_table})
    savemat(tmp_path / "sarcos" / "sarcos_inv.mat", {"sarcos_inv": sarcos_table[:12]})
    return tmp_path


@pytest.fixture
def activity_trials():
    """Rows of three trials in room 1 and two in room 2, by file name."""
    rng = np.random.default_rng(6)
    trials = {}
    for name, count in {"d1p01M": 7, "d1p02F": 4, "d1p03F": 9, "d2p01F": 5, "d2p02M": 3}.items():
        table = np.empty((count, 9))
        table[:, 0] = np.round(np.cumsum(rng.integers(0, 9, count)) * 0.025, 3)
        table[:, 1:4] = np.round(rng.normal(size=(count, 3)), 5)
        table[:, 4] = rng.integers(1, 5, count)
        table[:, 5:8] = np.round(rng.normal((-60, 3, 922), 1, (count, 3)), 2)
        table[:, 8] = rng.integers(1, 5, count)
        trials[name] = table
    return trials


@pytest.fixture
def activity_folder(tmp_path, activity_trials):
    for name, table in activity_trials.items():
        room = tmp_path / "activity" / f"S{name[1]}_Dataset"
        room.mkdir(parents=True, exist_ok=True)
        rows = [
            ",".join(f"{cell:g}" if i in (4, 8) else repr(float(cell)) for i, cell in enumerate(row)) for row in table
        ]
        (room / name).write_text("\n".join(rows) + "\n")
        (room / "README.txt").write_text("What the columns mean.\n")
    return tmp_path


MOVIES_1M = ["3::Café: Noir (1995)::Film-Noir|Drama", "10::Two (1996)::Comedy", "7::Nobody Rated It (2000)::War"]
MOVIES_10M = [
    "3::Кафе: The \x85 One::Two (1995)::Drama|IMAX",
    "10::Two (1996)::(no genres listed)",
    "65133::Far (2008)::Comedy|Drama",
]
USERS_1M = ["5::F::1::10::48067", "2::M::25::16::70072-1234", "9::M::56::0::00000"]
RATINGS_1M = ["5::10::4::978300760", "5::3::1::978302109", "2::3::5::978301968"]
RATINGS_10M = ["1::65133::0.5::838985046", "1::3::5::838983525", "71567::10::3.5::912580553", "8::3::4::1111545931"]


@pytest.fixture
def movielens_parts():
    """The members of small archives, by size and name."""

    def joined(lines, encoding="ascii"):
        return ("\n".join(lines) + "\n").encode(encoding)

    return {
        "1m": {
            "ml-1m/ratings.dat": joined(RATINGS_1M),
            "ml-1m/movies.dat": joined(MOVIES_1M, "iso-8859-1"),
            "ml-1m/users.dat": joined(USERS_1M),
        },
        "10m": {
            "ml-10M100K/ratings.dat": joined(RATINGS_10M),
            "ml-10M100K/movies.dat": joined(MOVIES_10M, "utf-8"),
        },
    }


@pytest.fixture
def zip_file():
    """Write a zip file with these members."""

    def write(file, members):
        file.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return file

    return write


@pytest.fixture
def write_movielens(tmp_path, movielens_parts, zip_file):
    """Put a small archive, with some members replaced, into a data folder; or its members, unpacked."""

    def write(size="1m", *, unpacked=False, **replaced):
        members = {name: replaced.get(Path(name).stem, content) for name, content in movielens_parts[size].items()}
        if unpacked:
            for name, content in members.items():
                (tmp_path / "movielens" / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / "movielens" / name).write_bytes(content)
        else:
            zip_file(tmp_path / "movielens" / f"ml-{size}.zip", members)
        return tmp_path

    return write


class Server:
    """Serves one file, and counts what it was asked."""

    def __init__(self):
        self.content = b""
        self.cut = None  # bytes after which the answer ends
        self.statuses = []  # codes that the next requests get, before anything else is considered
        self.says_length = True
        self.asked = []
        self.address = ""

    def answer(self, handler):
        self.asked.append(dict(handler.headers))
        code = self.statuses.pop(0) if self.statuses else 200
        handler.send_response(code)
        if self.says_length:
            handler.send_header("Content-Length", str(len(self.content)))
        handler.end_headers()
        handler.wfile.write(self.content[: self.cut])


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            # A client that gave up is what some of the tests are about.
            with contextlib.suppress(ConnectionError):
                state.answer(self)
            self.close_connection = True

        def log_message(self, *arguments):
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.address = f"http://127.0.0.1:{web.server_port}/file"
    yield state
    web.shutdown()
    thread.join()
    web.server_close()


@pytest.fixture
def real_folder():
    folder = os.environ.get("POSSE_DATA")
    if not folder:
        pytest.skip("POSSE_DATA is not set, so there are no real files to read")
    return Path(folder)
