"""Spec 02: every form of an option whose value may be left out, MODEL present and absent."""

from __future__ import annotations

import pytest
import rich_click as click

from proctor.cli.optional_values import LEFT_OUT, settle


@click.command()
@click.argument("benchmark")
@click.argument("harness")
@click.argument("model", required=False)
@click.option("--attempts", "--k", type=int)
@click.option("--early-exit/--no-early-exit")
@click.option("--reuse")
@click.option("--rerun")
def command(**given: object) -> None:
    pass


ALONE = f"--reuse={LEFT_OUT}"
AGAIN = f"--rerun={LEFT_OUT}"


@pytest.mark.parametrize(
    ("typed", "settled"),
    [
        ("B H M --reuse ID", "B H M --reuse=ID"),
        ("B H M --reuse", f"B H M {ALONE}"),
        ("B H M --reuse --rerun", f"B H M {ALONE} {AGAIN}"),
        ("B H M --reuse=ID", "B H M --reuse=ID"),
        ("--reuse B H M", f"{ALONE} B H M"),
        ("--reuse=ID B H M", "--reuse=ID B H M"),
        ("B --reuse H M", f"B {ALONE} H M"),
        ("B H --reuse M", f"B H {ALONE} M"),
        ("B H --reuse=ID", "B H --reuse=ID"),
        ("B H --reuse", f"B H {ALONE}"),
        ("B H --k 3 --reuse M", f"B H --k 3 {ALONE} M"),
        ("B H M --k 3 --early-exit --reuse ID", "B H M --k 3 --early-exit --reuse=ID"),
        ("B H --early-exit M --reuse ID", "B H --early-exit M --reuse=ID"),
        ("B H M --reuse -- x", f"B H M {ALONE} -- x"),
        ("B H --rerun failed", "B H --rerun=failed"),
        ("B H --rerun all M", "B H --rerun=all M"),
        ("B H --rerun M", f"B H {AGAIN} M"),
        ("--rerun B H M", f"{AGAIN} B H M"),
        ("B H M --rerun=all", "B H M --rerun=all"),
        ("B H M --rerun other", f"B H M {AGAIN} other"),
    ],
)
def test_02_every_form(typed: str, settled: str) -> None:
    assert settle(typed.split(), command.params) == settled.split()


def test_02_a_command_without_the_option_is_left_alone() -> None:
    bare = click.Command("bare", params=[click.Argument(["what"])])
    assert settle(["x", "--reuse", "y"], bare.params) == ["x", "--reuse", "y"]
