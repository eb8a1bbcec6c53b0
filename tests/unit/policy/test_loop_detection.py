"""Calls that repeat without progress: the warning to the model, and the denial."""

from typing import Any

from skerry.policy.loop_detection import CallHistory, LoopLimits, Repetition

LIMITS = LoopLimits(history=12, warning=2, critical=4, breaker=6)


def made(
    calls: list[tuple[str, dict[str, Any], bytes]], limits: LoopLimits = LIMITS
) -> list[Repetition | None]:
    history = CallHistory(limits)
    answers: list[Repetition | None] = []
    for tool, arguments, outcome in calls:
        answers.append(history.judge(tool, arguments))
        history.record(tool, arguments, outcome)
    return answers


def rules(answers: list[Repetition | None]) -> list[str]:
    return [answer.rule if answer else "" for answer in answers]


def test_equal_calls_with_equal_results_are_told_and_then_denied() -> None:
    answers = made([("read", {"path": "a", "limit": 1}, b"x")] * 7)
    text, denied = "loop-warning", "loop-breaker"
    assert rules(answers) == ["", "", text, "", text, "", denied]
    assert [answer.is_blocked for answer in answers if answer] == [False, False, True]


def test_a_new_result_starts_over() -> None:
    answers = made([("read", {"path": "a"}, bytes([number])) for number in range(9)])
    assert not any(answer.is_blocked for answer in answers if answer)


def test_other_arguments_are_another_call() -> None:
    assert not any(made([("read", {"path": str(number)}, b"x") for number in range(9)]))
    same = [("read", {"a": 1, "b": 2}, b"x"), ("read", {"b": 2, "a": 1}, b"x")] * 3
    assert any(made(same))


def test_polls_without_news_are_denied_earlier() -> None:
    poll = ("process", {"action": "poll", "sessionId": "s"}, b"running")
    assert rules(made([poll] * 5))[-1] == "loop-poll"
    write = ("process", {"action": "write", "sessionId": "s"}, b"running")
    assert rules(made([write] * 5))[-1] == "loop-warning"


def test_two_calls_in_turn_are_denied_while_their_results_stay() -> None:
    first, second = ("read", {"path": "a"}, b"x"), ("exec", {"command": "b"}, b"y")
    assert rules(made([first, second] * 3))[4] == "loop-in-turn"
    changed = [("read", {"path": "a"}, bytes([n])) if n % 2 else second for n in range(6)]
    assert "loop-in-turn" not in rules(made(changed))


def test_nothing_is_noticed_where_it_is_off() -> None:
    assert not any(made([("read", {}, b"x")] * 40, LoopLimits(enabled=False)))
