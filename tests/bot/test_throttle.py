"""Guessing is slowed down; nobody is locked out who is not guessing."""

from __future__ import annotations

import pytest

from bot.web import throttle
from bot.web.throttle import (
    ADDRESS_DELAY,
    ADDRESS_TRIES,
    CODE_TRIES,
    CODE_WAIT,
    FIRST_WAIT,
    FREE_TRIES,
    HOUR,
    LONGEST_WAIT,
    Throttle,
)

CODE, OTHER, CLINIC, HOME = "abcd-2345", "efgh-6789", "192.0.2.1", "198.51.100.7"


class Seconds:
    """Monotonic seconds that tests move."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def guarded(seconds: Seconds) -> Throttle:
    return Throttle(seconds)


def wrong(guarded: Throttle, times: int, code: str = CODE, address: str = CLINIC) -> None:
    for _ in range(times):
        guarded.failed(code, address)


def attacked(guarded: Throttle, times: int = CODE_TRIES) -> None:
    """Wrong PINs of one code, each from an address of its own."""
    for number in range(times):
        guarded.failed(CODE, f"203.0.113.{number}")


def test_the_first_try_and_the_next_mistakes_wait_for_nothing(guarded: Throttle) -> None:
    assert guarded.wait(CODE, CLINIC) == 0 and guarded.delay(CLINIC) == 0
    for _ in range(FREE_TRIES - 1):
        guarded.failed(CODE, CLINIC)
        assert guarded.wait(CODE, CLINIC) == 0


def test_after_five_wrong_tries_each_wait_is_twice_as_long_up_to_a_quarter_of_an_hour(
    guarded: Throttle, seconds: Seconds
) -> None:
    wrong(guarded, FREE_TRIES)
    waits = []
    for _ in range(8):
        waits.append(guarded.wait(CODE, CLINIC))
        seconds.now += waits[-1]
        guarded.failed(CODE, CLINIC)
    assert FREE_TRIES == 5 and waits == [30, 60, 120, 240, 480, LONGEST_WAIT, LONGEST_WAIT, LONGEST_WAIT]


def test_a_wait_runs_down_and_ends(guarded: Throttle, seconds: Seconds) -> None:
    wrong(guarded, FREE_TRIES)
    seconds.now += FIRST_WAIT - 1
    assert guarded.wait(CODE, CLINIC) == 1
    seconds.now += 1
    assert guarded.wait(CODE, CLINIC) == 0


def test_another_code_from_the_same_address_is_never_refused(guarded: Throttle) -> None:
    wrong(guarded, 3 * CODE_TRIES)
    for number in range(300):
        wrong(guarded, FREE_TRIES, code=f"code-{number}")
    assert guarded.wait(CODE, CLINIC) > 0 and guarded.wait(OTHER, CLINIC) == 0


def test_the_same_code_from_another_address_is_not_refused_for_a_few_mistakes(guarded: Throttle) -> None:
    wrong(guarded, FREE_TRIES)
    assert guarded.wait(CODE, CLINIC) > 0 and guarded.wait(CODE, HOME) == 0


def test_the_right_pin_forgets_the_mistakes_before_it(guarded: Throttle) -> None:
    wrong(guarded, FREE_TRIES - 1)
    guarded.passed(CODE, CLINIC)
    wrong(guarded, FREE_TRIES - 1)
    assert guarded.wait(CODE, CLINIC) == 0


def test_mistakes_of_more_than_an_hour_ago_do_not_count(guarded: Throttle, seconds: Seconds) -> None:
    wrong(guarded, FREE_TRIES - 1)
    seconds.now += HOUR + 1
    wrong(guarded, FREE_TRIES - 1)
    assert guarded.wait(CODE, CLINIC) == 0
    guarded.failed(CODE, CLINIC)
    assert guarded.wait(CODE, CLINIC) == FIRST_WAIT


def test_a_code_that_is_attacked_from_many_addresses_is_refused_to_a_new_one(guarded: Throttle) -> None:
    attacked(guarded, CODE_TRIES - 1)
    assert guarded.wait(CODE, "198.51.100.99") == 0
    guarded.failed(CODE, "203.0.113.250")
    assert guarded.wait(CODE, "198.51.100.99") == CODE_WAIT


def test_a_code_that_is_attacked_still_lets_in_from_where_it_has_signed_in_before(guarded: Throttle) -> None:
    guarded.passed(CODE, HOME)
    attacked(guarded, 10 * CODE_TRIES)
    assert guarded.wait(CODE, HOME) == 0 and guarded.wait(CODE, CLINIC) > 0
    assert guarded.wait(OTHER, CLINIC) == 0


def test_where_a_code_has_signed_in_before_mistakes_count_all_the_same(guarded: Throttle) -> None:
    guarded.passed(CODE, HOME)
    wrong(guarded, FREE_TRIES, address=HOME)
    assert guarded.wait(CODE, HOME) == FIRST_WAIT


def test_where_one_code_has_signed_in_another_that_is_attacked_is_not_let_in(guarded: Throttle) -> None:
    guarded.passed(OTHER, HOME)
    attacked(guarded)
    assert guarded.wait(CODE, HOME) > 0


def test_an_attack_that_has_ended_refuses_nobody_a_quarter_of_an_hour_later(
    guarded: Throttle, seconds: Seconds
) -> None:
    attacked(guarded)
    seconds.now += CODE_WAIT - 1
    assert guarded.wait(CODE, CLINIC) == 1
    seconds.now += 1
    assert guarded.wait(CODE, CLINIC) == 0


def test_an_address_with_two_hundred_mistakes_within_an_hour_is_slow_and_not_refused(
    guarded: Throttle, seconds: Seconds
) -> None:
    for number in range(ADDRESS_TRIES - 1):
        guarded.failed(f"code-{number}", CLINIC)
    assert ADDRESS_TRIES == 200 and guarded.delay(CLINIC) == 0
    guarded.failed("code-last", CLINIC)
    assert guarded.delay(CLINIC) == ADDRESS_DELAY and guarded.delay(HOME) == 0
    assert guarded.wait(OTHER, CLINIC) == 0
    seconds.now += HOUR + 1
    assert guarded.delay(CLINIC) == 0


def test_the_right_pin_is_no_mistake_of_its_code_or_its_address(guarded: Throttle) -> None:
    for number in range(2 * ADDRESS_TRIES):
        guarded.failed(f"code-{number}", CLINIC)  # every try counts until it was compared
        guarded.passed(f"code-{number}", CLINIC)
    for _ in range(2 * CODE_TRIES):
        guarded.failed(CODE, CLINIC)
        guarded.passed(CODE, CLINIC)
    assert guarded.delay(CLINIC) == 0 and guarded.wait(CODE, HOME) == 0
    wrong(guarded, CODE_TRIES - 1, address=HOME)
    guarded.failed(CODE, CLINIC)
    guarded.passed(CODE, CLINIC)
    assert guarded.wait(CODE, "203.0.113.9") == 0
    guarded.failed(CODE, HOME)
    assert guarded.wait(CODE, "203.0.113.9") == CODE_WAIT, "the mistakes of others stay"


def test_what_is_remembered_is_bounded_and_the_longest_unused_goes_first(
    guarded: Throttle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "MOST", 50)
    wrong(guarded, FREE_TRIES, code="early")
    wrong(guarded, FREE_TRIES)
    for number in range(500):
        guarded.failed(f"code-{number}", f"address-{number}")
        guarded.passed(f"code-{number}", f"address-{number}")
        guarded.failed(f"other-{number}", f"address-{number}")
        if number % 20 == 0:
            guarded.failed(CODE, CLINIC)
    books = (guarded._pairs, guarded._codes, guarded._addresses, guarded._known)
    assert [len(book) for book in books] == [50] * 4
    assert guarded.wait("early", CLINIC) == 0 and guarded.wait(CODE, CLINIC) > 0


def test_times_that_are_remembered_of_one_code_and_one_address_are_bounded(guarded: Throttle) -> None:
    for number in range(2_000):
        guarded.failed(f"code-{number}", CLINIC)
        guarded.failed(CODE, f"address-{number}")
    assert len(guarded._addresses[CLINIC].at) <= ADDRESS_TRIES + 1
    assert len(guarded._codes[CODE].at) <= ADDRESS_TRIES + 1


def test_however_often_somebody_guesses_it_is_still_counted(guarded: Throttle) -> None:
    wrong(guarded, 2_000)
    assert guarded.wait(CODE, CLINIC) == LONGEST_WAIT
