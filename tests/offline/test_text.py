from posse.offline import Always, Limits, Logged, Replay, Uniform, evaluate


def test_diagnostics_come_before_numbers(make):
    text = str(evaluate(make().log, Uniform()))

    assert text.startswith("480 rows of 12 tasks and 3 arms\nthe log itself earned ")
    order = ["effective rows", "largest weight", "mean weight", "overlap: 100 %", "estimator", "IPS", "SNIPS", "DR"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_a_refusal_has_its_reason_and_no_table(make):
    text = str(evaluate(make().log, Uniform(), limits=Limits(min_effective_rows=1e6)))

    assert "  REFUSED: 480 rows are worth" in text
    assert "What helps:" in text
    assert "IPS" not in text


def test_differences_groups_and_steps_are_told(make):
    made = make(floor=0.9)
    found = evaluate(made.log, [Always("red"), Replay("random")], against=Logged(), groups=["side"])
    text = str(found)

    assert "always red less logged" in text
    assert "probability above 0" in text
    assert "always red by side (DR; 95 % intervals)" in text
    assert "  warm: " in text
    assert f"  {found.targets[1].steps} steps, of 480 rows offered" in text


def test_many_groups_are_not_all_shown(make):
    found = evaluate(make(n_tasks=25).log, Uniform(), groups=["task"], estimators=("ips",))

    assert "  store-0: " in str(found)
    assert str(found).endswith("  and 5 more, in the table by_group")


def test_what_was_left_out_is_told(make):
    made = make(floor=0.9)
    rewards = [None if row % 20 == 0 else reward for row, reward in enumerate(made.rewards.tolist())]
    made.changes = {"reward": rewards}
    text = str(evaluate(made.log, Uniform()))

    assert text.startswith(
        "456 rows of 12 tasks and 3 arms; left out: 24 of 480 rows (24 without a reward, 0 without a propensity)"
    )


def test_few_tasks_say_what_their_intervals_are_about(make):
    text = str(evaluate(make(n_tasks=6).log, Uniform()))

    assert "note: 6 tasks are too few" in text
    assert "about these very tasks" in text
