"""The control manager as plain values, so that it can be written down as JSON and read back.

Output that the merger holds back is not among them: whoever keeps it has tables for it.
"""

import time
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np

from midstream.change.account import Account
from midstream.change.control import Change, ControlManager
from midstream.change.lifecycle import Element, Life
from midstream.change.record import ChangeRecord
from midstream.change.request import ChangeRequest

Plain = dict[str, Any]


def control_to_plain(control: ControlManager) -> Plain:
    """Return a control manager as plain values."""
    return {
        "decides": control.decides,
        "lives": [asdict(life) for life in control.lives.values()],
        "changes": [_change(change) for change in control.changes],
        "appended": sorted(control.appended),
        "audited": sorted(control.audited),
        "decided": [asdict(element) for element in control.decided],
        "last_left": control.last_left,
        "now_us": control.now_us,
    }


def control_of_plain(plain: Plain) -> ControlManager:
    """Return the control manager that these values are of."""
    control = ControlManager(decides=plain["decides"])
    lives = [Life(**{**life, "elements": [Element(**e) for e in life["elements"]]}) for life in plain["lives"]]
    control.lives = {life.version: life for life in lives}
    control.changes = [_change_of(change) for change in plain["changes"]]
    control.appended, control.audited = set(plain["appended"]), set(plain["audited"])
    control.decided = [Element(**e) for e in plain["decided"]]
    control.last_left = _pair(plain["last_left"])
    control.now_us = plain["now_us"]
    return control


def _change(change: Change) -> Plain:
    return {
        "request": change.request.to_dict(),
        "record": asdict(change.record),
        "old": list(change.old),
        "new": change.new,
        "position_us": change.position_us,
        "audit": change.audit,
        "lasted_ms": (time.perf_counter() - change.began) * 1000,
        "waits_for_result": change.waits_for_result,
        "waits_for_drain": change.waits_for_drain,
        "reference": [oldest.tolist() for oldest in change.reference],
        "reference_over": change.reference_over,
        "account": _account(change.account),
    }


def _change_of(plain: Plain) -> Change:
    record, old = ChangeRecord(**plain["record"]), tuple(plain["old"])
    account = Account(record, old, plain["new"], plain["position_us"])
    counted = plain["account"]
    account.latest = tuple(counted["latest"])
    account.prints = {old_: Counter(dict(counted["prints"][place])) for place, old_ in enumerate((True, False))}
    account.after_old_us = counted["after_old_us"]
    account.last_old, account.first_new = _pair(counted["last_old"]), _pair(counted["first_new"])
    return Change(
        ChangeRequest(**plain["request"]), record, old, plain["new"], plain["position_us"], account, plain["audit"],
        time.perf_counter() - plain["lasted_ms"] / 1000, plain["waits_for_result"], plain["waits_for_drain"],
        [np.array(oldest, np.int64) for oldest in plain["reference"]], plain["reference_over"],
    )  # fmt: skip


def _account(account: Account) -> Plain:
    return {
        "latest": list(account.latest),
        "prints": [list(account.prints[old].items()) for old in (True, False)],
        "last_old": account.last_old,
        "after_old_us": account.after_old_us,
        "first_new": account.first_new,
    }


def _pair(plain: list[Any] | None) -> tuple[int, float] | None:
    return None if plain is None else (plain[0], plain[1])
