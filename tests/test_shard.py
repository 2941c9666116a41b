"""Shares of work: disjoint, complete, even, and the same wherever they are taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import UsageError
from pipelines.shard import WHOLE, Shard, parse_shard


@given(st.lists(st.integers()), st.integers(1, 40))
def test_the_shares_are_a_partition(things: list[int], count: int) -> None:
    places = list(enumerate(things))  # the same number may stand there twice
    shares = [Shard(number, count).of(places) for number in range(1, count + 1)]
    assert sorted(place for share in shares for place in share) == places
    assert all(share == sorted(share) for share in shares)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert WHOLE.of(places) == places


@given(st.integers(1, 10**9 - 1), st.data())
def test_a_share_is_read_as_it_is_written(count: int, data: st.DataObject) -> None:
    shard = Shard(data.draw(st.integers(1, count)), count)
    assert parse_shard(str(shard)) == shard


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0/3", "--shard 0/3: there is no such share; give 1/3 to 3/3"),
        ("4/3", "--shard 4/3: there is no such share; give 1/3 to 3/3"),
        ("1/0", "--shard 1/0: there is no such share; give 1/1 to 1/1"),
        ("1", "--shard 1: give the number of the share and how many there are, such as 2/8"),
        ("-1/3", "--shard -1/3: give the number"),
        ("1/3/5", "--shard 1/3/5: give the number"),
        ("a/b", "--shard a/b: give the number"),
        ("", "--shard : give the number"),
        ("1/" + "9" * 5000, "--shard 1/999"),
    ],
)
def test_what_is_no_share_is_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_shard(text)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)
