"""The plugins do what proctor expects of any."""

import asyncio

import pytest
from my_plugins.similar import Mottoes, Similar
from my_plugins.sums import Sums
from my_plugins.voting import Voting

from proctor.testing import check_benchmark, check_grader, check_harness

CHECKS = [
    *check_harness(Voting, {"votes": 2}),
    *check_benchmark(Sums, {"tasks": 3}),
    *check_benchmark(Mottoes),
    *check_grader(Similar, {"expected": "E pluribus unum"}, right="E pluribus unum.", wrong="Carpe diem"),
]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_plugins_conform(check):
    """Each check is independent of the others."""
    asyncio.run(check())
