import pytest

from posse.errors import InvalidValue
from posse_lab.plotting.peers import plot_peers


def latency(decide, update, average):
    return {
        name: {"best": value * 1e-6, "median": 2 * value * 1e-6, "calls": 10}
        for name, value in (
            ("decide", decide),
            ("update", update),
            ("update_average", average),
            ("decide_average", decide),
        )
    }


@pytest.fixture
def report():
    rows = [
        {
            "library": library,
            "form": form,
            "configuration": words,
            "mean": mean,
            "standard_error": error,
            "latency": some,
        }
        for library, form, words, mean, error, some in (
            ("posse", "ebmTS", "", 7123.0, 91.0, latency(2.5, 1.25, 21.4)),
            ("river", "pooled", "recommended", 9876.0, 200.0, latency(147.0, 27.0, 20.0)),
            ("river", "pooled", "tuned", 9321.0, None, latency(149.0, 26.0, 20.0)),
        )
    ]
    return {
        "machine": {"processor": "Some Processor", "cores": 2, "posse": "0.1.0"},
        "size": {"n_tasks": 100, "n_arms": 5, "n_features": 10},
        "n_steps": 2000,
        "seeds": 5,
        "rows": rows,
        "random": [16_000.0, 17_000.0],
        "blocks": None,
    }


def text_of(report, folder):
    path = folder / "peers.svg"
    plot_peers(report, [path, folder / "peers.png"])
    assert (folder / "peers.png").stat().st_size > 10_000
    return path.read_text()


def test_every_entry_has_its_numbers(report, tmp_path):
    text = text_of(report, tmp_path)

    for words in ("posse", "ebmTS", "pooled, recommended", "2.50 + 1.25", "147 + 27.0", "7,123", "9,321"):
        assert f">{words}<" in text
    assert text.count(">river<") == 1
    assert "mean over 5 seeds" in text
    assert "task, 1,000 tasks" not in text


def test_task_blocks_are_in_the_small_print(report, tmp_path):
    known = {"ebmTS": latency(2.0, 1.0, 8.0), "recommended": latency(48_000, 1.0, 38_000)}
    rows = [
        {"configuration": "recommended", "ratio": {"ebmTS": 0.71}},
        {"configuration": "tuned", "ratio": {"ebmTS": 0.93}},
    ]
    blocks = {"size": {"n_tasks": 1000}, "known": known, "rows": rows}
    text = " ".join(text_of(report | {"blocks": blocks}, tmp_path).split())

    assert "86,000" in text
    assert "0.71 of theirs as recommended" in text
    assert "0.93 of theirs as tuned" in text


def test_drawing_again_changes_nothing(report, tmp_path):
    first = text_of(report, tmp_path)

    assert text_of(report, tmp_path) == first


def test_posse_alone_can_be_drawn(report, tmp_path):
    assert ">ebmTS<" in text_of(report | {"rows": report["rows"][:1]}, tmp_path)


def test_bad_paths_are_refused(report, tmp_path):
    with pytest.raises(InvalidValue, match=r"to end in \.png, \.svg or \.pdf"):
        plot_peers(report, [tmp_path / "peers.txt"])
