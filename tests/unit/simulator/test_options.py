"""Options of the simulator that no run could use are refused by their name."""

import pytest

from penstock_simulator.options import parser, scenario
from penstock_simulator.scenario import ImpossibleScenario

UNUSABLE = """
--max-replicas 0
--curve 0,0
--curve nan,1
--curve 100
--connections 0
--cap-max 0
--window-ms -1
--objective-ms 0
--first-token-ms 0
--output-token-ms 0
--seed -1
--start -1
--seconds -1
--mean-replicas nan
--loss 2
--delay nan
--jitter inf
--timeout soon
--cold-median nan
--outage 1,nan
--outage 200,100
--outage 200,200
--plot picture.foo
--plot picture
--steps 8,nan,0,0
--steps 8,0,nan,0
"""


@pytest.mark.parametrize("words", UNUSABLE.split("\n")[1:-1])
def test_an_option_that_no_run_can_use_is_refused(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["simulate", "--trace", "trace.csv", *words.split()])
    assert f"argument {words.split(maxsplit=1)[0]}: " in capsys.readouterr().err


def test_options_at_their_bounds_are_read() -> None:
    words = "--max-replicas 1 --curve 0,1 --loss 1 --mean-replicas 0 --start 0 --cold-median 0"
    args = parser().parse_args(["simulate", "--trace", "trace.csv", *words.split()])
    assert (args.max_replicas, args.curve, args.loss) == (1, (0.0, 1.0), 1.0)
    assert (args.mean_replicas, args.start, args.cold_median) == (0.0, 0, 0.0)


def test_bounds_of_the_count_that_exclude_each_other_are_rejected() -> None:
    words = "simulate --trace trace.csv --min-replicas 3 --max-replicas 2"
    with pytest.raises(ImpossibleScenario, match="minReplicas is 3, above maxReplicas 2"):
        scenario(parser().parse_args(words.split()), seed=1)
