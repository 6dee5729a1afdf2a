"""The control manager as plain values, so that it can be written down as JSON and read back.

Output that the merger holds back is not among them: whoever keeps it has tables for it. Nor is what was decided in
this micro-batch: it is sent before anything is written down, and decided again if the micro-batch is run again.
"""

import time
from typing import Any

import numpy as np

from midstream.change.account import Account, LeftAt
from midstream.change.control import ControlManager
from midstream.change.lifecycle import Element, Life
from midstream.change.prints import Prints
from midstream.change.record import ChangeRecord
from midstream.change.reference import KEY, Reference
from midstream.change.request import ChangeRequest
from midstream.change.under_way import Change
from midstream.model.time import NEVER

Plain = dict[str, Any]


def control_to_plain(control: ControlManager) -> Plain:
    """Return a control manager as plain values."""
    return {
        "decides": control.decides,
        "lives": [life.to_dict() for life in control.lives.values()],
        "changes": [_change(change) for change in control.changes],
        "appended": sorted(control.appended),
        "audited": sorted(control.audited),
        "drained": [[*key, *over] for key, over in control.drained.items()],
        "last_left": control.last_left,
        "clock_us": control.clock_us,
    }


def control_of_plain(plain: Plain) -> ControlManager:
    """Return the control manager that these values are of."""
    control = ControlManager(decides=plain["decides"])
    lives = [Life(**{**life, "elements": [Element(**e) for e in life["elements"]]}) for life in plain["lives"]]
    control.lives = {life.version: life for life in lives}
    control.changes = [_change_of(change) for change in plain["changes"]]
    control.appended, control.audited = set(plain["appended"]), set(plain["audited"])
    control.drained = {(v, position): (over, known) for v, position, over, known in plain["drained"]}
    control.last_left = _left_at(plain["last_left"])
    control.clock_us = plain["clock_us"]
    return control


def _change(change: Change) -> Plain:
    reference = change.reference
    return {
        "request": change.request.to_dict(),
        "record": dict(vars(change.record)),
        "old": list(change.old),
        "new": change.new,
        "position_us": change.position_us,
        "audit": change.audit,
        "lasted_ms": (time.perf_counter() - change.began) * 1000,
        "waits_for_result": change.waits_for_result,
        "waits_for_drain": change.waits_for_drain,
        "followed": change.followed,
        "reference": None if reference is None else _reference(reference),
        "account": _account(change.account),
    }


def _reference(reference: Reference) -> Plain:
    return {
        "over": reference.over,
        "not_before_us": reference.not_before_us,
        "missing": reference.missing.tolist(),
    }


def _change_of(plain: Plain) -> Change:
    record, old = ChangeRecord(**plain["record"]), tuple(plain["old"])
    account = Account(record, old, plain["new"], plain["position_us"])
    counted = plain["account"]
    account.latest = tuple(counted["latest"])
    account.old_prints, account.new_prints = (_prints_of(counted[name]) for name in ("old_prints", "new_prints"))
    account.drained_from_us, account.valued = counted["drained_from_us"], counted["valued"]
    account.ends_late = counted.get("ends_late", False)
    account.uncertain = [np.array(times_us, np.int64) for times_us in counted["uncertain"]]
    account.last_old, account.first_new = _left_at(counted["last_old"]), _left_at(counted["first_new"])
    reference = None
    if plain["reference"] is not None:
        reference = Reference()
        reference.over = plain["reference"]["over"]
        reference.not_before_us = plain["reference"].get("not_before_us", NEVER)
        reference.missing = np.array(plain["reference"]["missing"], np.int64).reshape(-1, KEY)
    return Change(
        ChangeRequest(**plain["request"]), record, old, plain["new"], plain["position_us"], account, plain["audit"],
        time.perf_counter() - plain["lasted_ms"] / 1000, plain["waits_for_result"], plain["waits_for_drain"], reference,
        plain["followed"],
    )  # fmt: skip


def _account(account: Account) -> Plain:
    return {
        "latest": list(account.latest),
        "old_prints": _prints(account.old_prints),
        "new_prints": _prints(account.new_prints),
        "drained_from_us": account.drained_from_us,
        "uncertain": [times_us.tolist() for times_us in account.uncertain],
        "valued": account.valued,
        "ends_late": account.ends_late,
        "last_old": account.last_old,
        "first_new": account.first_new,
    }


def _prints(prints: Prints) -> list[list[int]]:
    return [prints.prints.tolist(), prints.oldest_us.tolist()]


def _prints_of(plain: list[list[int]]) -> Prints:
    prints = Prints()
    prints.prints, prints.oldest_us = (np.array(values, np.int64) for values in plain)
    return prints


def _left_at(plain: list[Any] | None) -> LeftAt | None:
    return None if plain is None else (plain[0], plain[1])
