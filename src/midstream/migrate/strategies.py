"""The strategies by name: each takes over from the running tree of joins and returns the execution that goes on."""

from midstream.migrate.hybrid import divide_work
from midstream.migrate.just_in_time import complete_on_demand
from midstream.migrate.moving_state import move_state_over
from midstream.migrate.parallel_track import run_side_by_side
from midstream.migrate.request import HYBRID, JUST_IN_TIME, MOVING_STATE, PARALLEL_TRACK
from midstream.migrate.switch import Strategy

STRATEGY: dict[str, Strategy] = {
    MOVING_STATE: move_state_over,
    PARALLEL_TRACK: run_side_by_side,
    HYBRID: divide_work,
    JUST_IN_TIME: complete_on_demand,
}
