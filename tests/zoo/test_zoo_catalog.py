"""The table of models: what can be asked of it without torch."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers import zoo


def test_names_can_stand_in_a_job() -> None:
    assert zoo.names() == tuple(sorted(set(zoo.names())))
    assert all(re.fullmatch("[a-z0-9_]+", name) for name in zoo.names())


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_says_in_one_line_where_it_was_published(name: str) -> None:
    source = zoo.find(name).source
    assert re.search(r"\b(19|20)\d\d\b", source), "a paper has a year"
    assert "\n" not in source


@given(st.integers(0, 10**9 - 1))
def test_any_seed_names_a_random_model(seed: int) -> None:
    entry = zoo.find(f"nasbench_{seed}")
    assert zoo.known(entry.name)
    assert entry.arguments == (seed,)
    assert str(seed) in entry.source


@pytest.mark.parametrize(
    "name", ["resnet", "initialise", "nasbench_", "nasbench_01", "nasbench_1e3", "nasbench_-1", ""]
)
def test_an_unknown_model_is_named(name: str) -> None:
    assert not zoo.known(name)
    with pytest.raises(KeyError, match=r"no model .*squeezenet"):
        zoo.find(name)
    with pytest.raises(KeyError):
        zoo.program(name, 1)


def test_sequences_can_have_another_length() -> None:
    assert [x.shape for x in zoo.inputs("bert_base", 3, 17)] == [(3, 17)] * 3
    assert [x.shape for x in zoo.inputs("bert_base", 3)] == [(3, 128)] * 3


@pytest.mark.parametrize(
    ("name", "length", "what"),
    [
        ("bert_base", 513, "1 to 512, not 513"),
        ("t5_small", 0, "1 to 512, not 0"),
        ("squeezenet", 64, "no sequences"),
        ("lstm_tc", 64, "no sequences"),
    ],
)
def test_a_length_that_a_model_cannot_take_is_refused(name: str, length: int, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        zoo.inputs(name, 1, length)


def test_the_table_is_read_without_torch() -> None:
    code = (
        "import sys; from workers import zoo; "
        "print(len([zoo.find(name).source for name in zoo.names()]), 'torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == [str(len(zoo.names())), "False"]
