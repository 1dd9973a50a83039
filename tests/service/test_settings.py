"""Settings from a file, from options, or from neither."""

import dataclasses

import pytest

from posse.errors import InvalidValue
from posse.service.settings import Limits, Settings, read_settings


def write(tmp_path, text):
    path = tmp_path / "posse.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_nothing_needs_to_be_set():
    assert read_settings(None) == Settings()
    assert Settings().host == "127.0.0.1"
    assert Settings().embedded


def test_everything_can_be_set_in_a_file(tmp_path):
    settings = Settings(
        database="other.db", host="::1", port=9000, workers=3, snapshot_seconds=5.5, follow_seconds=0.1,
        require_keys="always", log_format="json", access_log=True,
        limits=Limits(**{entry.name: getattr(Limits(), entry.name) + 1 for entry in dataclasses.fields(Limits)}),
    )  # fmt: skip
    values = dataclasses.asdict(settings)
    limits = values.pop("limits")
    text = "\n".join(f"{name} = {value!r}" for name, value in values.items()).replace("'", '"').replace("True", "true")
    text += "\n[limits]\n" + "\n".join(f"{name} = {value!r}" for name, value in limits.items())
    assert read_settings(write(tmp_path, text)) == settings


def test_options_win_over_the_file(tmp_path):
    path = write(tmp_path, 'port = 9000\ndatabase = "file.db"\n[limits]\nbatch = 7\n')
    settings = read_settings(path, port=0, database=None, host="localhost")
    assert (settings.port, settings.database, settings.host, settings.limits.batch) == (0, "file.db", "localhost", 7)


@pytest.mark.parametrize("database", ["postgresql://user@host/name", "postgres://host/name"])
def test_postgres_is_not_embedded(database):
    assert not Settings(database=database).embedded


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour = 1", "no setting colour"),
        ("[limits]\ncolour = 1", "no setting limits.colour"),
        ("limits = 3", "limits to be a table"),
        ("port = 70000", "65535"),
        ("port = -1", "port"),
        ("port = '80'", "port"),
        ("port = 80.5", "port"),
        ("port = true", "port"),
        ("workers = 0", "workers"),
        ("host = 7", "host"),
        ("require_keys = true", "require_keys to be text"),
        ("log_format = 'xml'", "log_format"),
        ("access_log = 1", "access_log to be true or false"),
        ("require_keys = 'never'", "require_keys to be one of 'once-made', 'always', 'while-any'"),
        ("host = ''", "host"),
        ("database = ['a']", "database"),
        ("snapshot_seconds = 0", "snapshot_seconds"),
        ("follow_seconds = 0", "follow_seconds"),
        ("follow_seconds = -1", "follow_seconds"),
        ("follow_seconds = nan", "follow_seconds"),
        ("snapshot_seconds = inf", "snapshot_seconds"),
        ("[limits]\nbody = 0", "limits.body"),
        ("[limits]\nbatch = 1.5", "limits.batch"),
        ("[limits]\nrate = -1", "limits.rate"),
        ("[limits]\nrate = 'fast'", "limits.rate"),
        ("[limits]\nlabel = true", "limits.label"),
        ("port = ", "is not TOML"),
        ("\0", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, words):
    path = write(tmp_path, text)
    with pytest.raises(InvalidValue, match=words.replace(".", r"\.")) as caught:
        read_settings(path)
    assert str(caught.value).startswith(path)


def test_a_wrong_option_is_not_laid_to_the_file(tmp_path):
    path = write(tmp_path, "port = 9000")
    with pytest.raises(InvalidValue, match="65535") as caught:
        read_settings(path, port=70000)
    assert path not in str(caught.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InvalidValue, match="cannot read the settings"):
        read_settings(str(tmp_path / "none.toml"))
    with pytest.raises(InvalidValue, match="cannot read the settings"):
        read_settings(str(tmp_path))
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidValue, match="is not TOML"):
        read_settings(str(tmp_path / "odd.toml"))


def test_no_limit_means_none_for_rates_only():
    settings = dataclasses.replace(Settings(), limits=Limits(rate=0, refusals=0))
    assert settings.limits.rate == 0


def test_every_setting_is_described():
    for kind in (Limits, Settings):
        for entry in dataclasses.fields(kind):
            assert entry.name in kind.__doc__
