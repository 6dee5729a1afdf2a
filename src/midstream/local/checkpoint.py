"""Checkpoint of a run in process: a folder from which the run goes on exactly where it was.

    identity.json     who: query, streams, buckets, batch width, framework, schedule, and where results go
    commit.json       the last micro-batch that counts, and the files that belong to it: replaced by a rename
    state-N.json      heads of the buckets, result merger, position, control rows, records, totals after micro-batch N
    N-....arrow       tables first written in micro-batch N
    batches.jsonl     the report of each micro-batch; the commit says how many bytes of it count
    lock              held by the process that runs the query

    results of N ──▶ tables, state ──▶ commit.json ──▶ files that no commit needs any more are removed

Every micro-batch is committed: it is the unit in which results can be replaced, and its width is the user's to choose.
Killed before the rename, the run goes on after micro-batch N-1 and replaces the results of N; after it, N counts.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.local.files import read_json, read_table, replace_json, write_table, writing
from midstream.local.folder_store import FolderStore
from midstream.local.held_folder import HeldFolder
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format

FORMAT = 1
"""The form in which a checkpoint is written."""
Plain = dict[str, Any]


class Checkpoint(HeldFolder):
    """The folder a run in process lives in. Invariant: what `commit.json` names is there, whole."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with writing(f"the checkpoint {folder}", MidstreamError):
            folder.mkdir(parents=True, exist_ok=True)
        if (folder / "midstream.json").exists():
            raise MidstreamError(f"{folder} is the checkpoint of a query on Spark; give a run in process its own")
        self.hold()
        self._commit = read_json(folder / "commit.json")
        self._check_formats()
        self.state: Plain | None = None
        """What was committed last; None: nothing was."""
        if self._commit is not None:
            self.state = json.loads((folder / self._commit["state"]).read_text(encoding="utf-8"))
        self._stores: list[FolderStore] = []

    def _check_formats(self) -> None:
        for known in (read_json(self.folder / "identity.json"), self._commit):
            if known is not None:
                try:
                    check_format(f"checkpoint {self.folder}", known.get("format"), FORMAT)
                except MidstreamError:
                    self.release()
                    raise

    @property
    def committed(self) -> int | None:
        """Return the last micro-batch that counts; None: there is none."""
        return None if self._commit is None else self._commit["batch"]

    @property
    def begun(self) -> bool:
        """Return whether a run has begun here."""
        return (self.folder / "identity.json").is_file()

    @property
    def identity(self) -> Plain:
        """Return who runs, or nothing before that is written down."""
        return read_json(self.folder / "identity.json") or {}

    def identify(self, who: Plain, whose: Mapping[str, str]) -> None:
        """Write down who runs, or check that it is the same; `whose` says what to call what differs, and what to do."""
        asked = {"format": FORMAT, **json.loads(json.dumps(who))}
        known = read_json(self.folder / "identity.json")
        if known is None:
            replace_json(self.folder / "identity.json", asked)
            return
        for name, value in asked.items():
            if known.get(name) != value:
                was, now = (v if isinstance(v, int | str) else "none" for v in (known.get(name), value))
                text = whose[name].format(was=was, now=now)
                raise MidstreamError(f"checkpoint {self.folder} {text}")

    def stores(self, count: int) -> list[FolderStore]:
        """Return the stores of the buckets, as they were committed."""
        saved = [] if self.state is None else self.state["buckets"]
        self._stores = [FolderStore(self.folder, k, saved[k] if k < len(saved) else None) for k in range(count)]
        return self._stores

    def held(self) -> dict[str, pa.Table]:
        """Return the output that the result merger held back."""
        assert self.state is not None
        return {name: read_table(self.folder / file) for name, file in self.state["held"].items()}

    def batches(self) -> list[Plain]:
        """Return the reports of all micro-batches that count."""
        if self._commit is None:
            return []
        with open(self.folder / "batches.jsonl", "rb") as file:
            return [json.loads(line) for line in file.read(self._commit["reports"]).splitlines()]

    def clear(self) -> None:
        """Remove what belongs to no commit: a run was killed while it wrote that."""
        needed = set() if self._commit is None else {self._commit["state"], *self._commit["files"]}
        for file in [*self.folder.glob("*.arrow"), *self.folder.glob("state-*.json"), *self.folder.glob(".*.pending")]:
            if file.name not in needed:
                file.unlink()
        with open(self.folder / "batches.jsonl", "ab") as reports:
            reports.truncate(0 if self._commit is None else self._commit["reports"])

    def commit(self, state: Plain, held: Mapping[str, pa.Table], reports: Sequence[Plain]) -> None:
        """Let a micro-batch count whose results are written; `reports` are those of micro-batches since the last."""
        with writing(f"the checkpoint {self.folder}", MidstreamError):
            self._write(state, held, reports)

    def _write(self, state: Plain, held: Mapping[str, pa.Table], reports: Sequence[Plain]) -> None:
        before, number = self._commit, self.next_number
        names = {name: f"{number:08d}-merger-{name}.arrow" for name in held}
        for name, table in held.items():
            write_table(self.folder / names[name], table)
        state = {**state, "buckets": [store.save(number) for store in self._stores], "held": names}
        reach("tables written")
        file = f"state-{number:08d}.json"
        (self.folder / file).write_text(json.dumps(state), encoding="utf-8")
        reach("state written")
        with open(self.folder / "batches.jsonl", "ab") as log:
            log.truncate(0 if before is None else before["reports"])  # a commit before this one may have failed
            log.write(b"".join(json.dumps(report).encode() + b"\n" for report in reports))
            length = log.tell()
        reach("reports written")
        tables = [name for bucket in state["buckets"] for *_, name in bucket["tables"]]
        files = sorted([*tables, *names.values()])
        commit = {"format": FORMAT, "batch": number, "state": file, "reports": length, "files": files}
        replace_json(self.folder / "commit.json", commit)
        self._commit = commit
        reach("committed")
        if before is not None:
            for name in {before["state"], *before["files"]} - {file, *files}:
                (self.folder / name).unlink(missing_ok=True)
                reach("file removed")

    @property
    def next_number(self) -> int:
        """Return the number of the next micro-batch."""
        return 0 if self.committed is None else self.committed + 1

    def __del__(self) -> None:
        self.release()
