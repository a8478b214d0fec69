"""A question is answered by its flag, on the terminal or by its default, and a wrong answer is explained."""

from __future__ import annotations

import pytest

from paddock.base.errors import BadInput
from paddock.setup.questions import Choice, Question, Stopped
from setup.scripted import conversation

COLOUR = Question("--colour", "Colour", "Which colour?", "red", [Choice("red", "warm"), Choice("blue")])
NAME = Question("--name", "Name of the agent", "Name of the agent")
SECRET = Question("--key-file", "Key", "Key (not shown)", secret=True)


def short(answer: str) -> str:
    if len(answer) > 5:
        raise BadInput(f"{answer} is too long", hint="use five letters")
    return answer


def test_a_flag_answers_without_a_question() -> None:
    talk, script = conversation([], {"--colour": "blue"})
    assert talk.ask(COLOUR, str) == "blue"
    assert (talk.asked, script.transcript) == (0, "")


@pytest.mark.parametrize(("typed", "taken"), [("", "red"), ("2", "blue"), ("blue", "blue")])
def test_a_choice_is_made_by_number_by_name_or_by_default(typed: str, taken: str) -> None:
    talk, script = conversation([typed])
    assert talk.ask(COLOUR, str) == taken
    assert script.transcript == f"\nWhich colour?\n  1  red   warm\n  2  blue\nNumber or name [red]: {typed}\n"


def test_a_wrong_answer_is_explained_and_asked_for_again() -> None:
    talk, script = conversation(["", "too long", "bee"])
    assert talk.ask(NAME, short) == "bee"
    assert script.transcript == (
        "\nName of the agent: \n  an answer is needed here\n"
        "Name of the agent: too long\n  too long is too long\n  use five letters\n"
        "Name of the agent: bee\n"
    )
    assert talk.asked == 3


def test_a_wrong_flag_is_an_error_that_names_it() -> None:
    for answers in (None, ["bee"]):
        talk, _ = conversation(answers, {"--name": "too long", "--colour": "green"})
        with pytest.raises(BadInput, match=r"^--name: too long is too long$") as caught:
            talk.ask(NAME, short)
        assert caught.value.hint == "use five letters"
        with pytest.raises(BadInput, match="--colour: green is not one of red, blue"):
            talk.ask(COLOUR, str)


def test_without_a_terminal_a_default_is_taken_and_told() -> None:
    talk, script = conversation(None)
    assert talk.ask(COLOUR, str) == "red"
    assert script.transcript == "Colour: red (by default; --colour chooses another)\n"


def test_without_a_terminal_a_missing_answer_is_an_error_that_names_the_flag() -> None:
    talk, _ = conversation(None)
    with pytest.raises(BadInput, match="the name of the agent is missing: give it with --name"):
        talk.ask(NAME, str)


def test_a_single_choice_is_told_and_not_asked() -> None:
    talk, script = conversation([])
    only = Question("--node", "Node", "Which node?", "pve", [Choice("pve")])
    assert talk.choose(only, str) == "pve"
    assert (talk.asked, script.transcript) == (0, "Node: pve (the only one)\n")


def test_a_secret_is_not_shown() -> None:
    talk, script = conversation(["hunter2"])
    assert talk.ask(SECRET, str) == "hunter2"
    assert "hunter2" not in script.transcript


def test_the_end_of_the_input_stops_the_conversation() -> None:
    talk, _ = conversation([])
    with pytest.raises(Stopped, match="nothing was written"):
        talk.ask(NAME, str)


def test_sentences_fit_a_narrow_terminal_and_keep_their_words() -> None:
    talk, script = conversation(None)
    url = "https://a-very-long-name-of-a-node-that-nobody-would-type.example.com:8006/with/a/path/too"
    talk.say(f"{'some words ' * 12}{url}")
    assert url in script.lines
    assert all(len(line) < 80 or line == url for line in script.lines)
