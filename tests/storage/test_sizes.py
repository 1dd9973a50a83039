"""What a storage tells of itself to whoever watches it."""


def test_times_of_fleets(storage, make):
    assert storage.fleet_times() == {"stores": (None, None)}
    storage.write([[make.decision("a", time=100.0)], [make.decision("b", time=90.0)], [make.decision("c", time=80.0)]])
    storage.write([[make.reward("c")]])
    assert storage.fleet_times() == {"stores": (90.0, None)}
    unfinished = storage.start_snapshot("stores", 1, 200.0)
    assert storage.fleet_times()["stores"][1] is None
    storage.finish_snapshot(unfinished)
    assert storage.fleet_times() == {"stores": (90.0, 200.0)}
    storage.delete_fleet("stores")
    assert storage.fleet_times() == {}


def test_size_grows(storage, make):
    before = storage.size()
    storage.write([[make.decision(body="x" * 5000)] for _ in range(100)])
    assert storage.size() > before > 0
