"""Checkpoint of a run in process: a folder from which the run goes on exactly where it was.

    identity.json     who: query, streams, buckets, batch width, framework, schedule, and where results go
    commit.json       the last micro-batch that counts, and the files that belong to it: replaced by a rename
    state-N.json      heads of the buckets, result merger, position, control rows, records, totals after micro-batch N
    N-....arrow       tables first written in micro-batch N
    batches.jsonl     the report of each micro-batch; the commit says how many bytes of it count
    lock              held by the process that runs the query

    results of N ──▶ tables, state ──▶ commit.json ──▶ results of N appear; files that no commit needs are removed

Every micro-batch is committed: it is the unit in which results appear, and its width is the user's to choose.
Killed before the rename, the run goes on after micro-batch N-1 and makes the results of N anew; after it, N counts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.local.files import private_file, read_json, read_table, replace_json, write_table, write_text, writing
from midstream.local.folder_store import FolderStore
from midstream.local.held_folder import HeldFolder
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format, document, whole
from midstream.model.names import is_name

FORMAT = 1
"""The form in which a checkpoint is written."""
Plain = dict[str, Any]


class Checkpoint(HeldFolder):
    """The folder a run in process lives in. Invariant: what `commit.json` names is there, whole."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with writing(f"the checkpoint {folder}", MidstreamError):
            self.world.files.make_folder(folder)
        if (folder / "midstream.json").exists():
            raise MidstreamError(f"{folder} is the checkpoint of a query on Spark; give a run in process its own")
        self.hold()
        self._commit: Plain | None = None
        self.state: Plain | None = None
        """What was committed last; None: nothing was."""
        self._stores: list[FolderStore] = []
        try:
            self._commit = self._read()
        except BaseException:
            self.release()
            raise

    def _read(self) -> Plain | None:
        """Read what was committed last; return the commit."""
        commit = read_json(self.folder / "commit.json")
        for known in (read_json(self.folder / "identity.json"), commit):
            if known is not None:
                check_format(f"checkpoint {self.folder}", known.get("format"), FORMAT)
        if commit is not None:
            with whole(self.folder / "commit.json"):
                file = self.folder / commit["state"]
                if not {"batch", "files", "reports"} <= commit.keys():
                    raise KeyError("files")
                self._check_names("commit.json", [commit["state"], *commit["files"]])
            with whole(file):
                self.state = document(file, file.read_bytes())
                # Those of a release before have no format of their own: that of the commit was theirs.
                check_format(f"{file}", self.state.get("format", FORMAT), FORMAT)
                tables = [name for bucket in self.state["buckets"] for *_, name in bucket["tables"]]
                self._check_names(commit["state"], [*self.state["held"].values(), *tables])
        return commit

    def _check_names(self, file: str, names: Iterable[object]) -> None:
        """Refuse names of files elsewhere: files are read, and removed when they are needed no more."""
        for name in names:
            if not is_name(name):
                raise MidstreamError(f"checkpoint {self.folder} was tampered with: {file} names the file {name!r}")

    @property
    def state_file(self) -> Path:
        """Return the file with what was committed last."""
        return self.folder / str((self._commit or {}).get("state"))

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
            if known.get(name, value) != value:  # what a release before did not write is not compared
                was, now = (v if isinstance(v, int | str) else "none" for v in (known.get(name), value))
                text = whose[name].format(was=was, now=now)
                raise MidstreamError(f"checkpoint {self.folder} {text}")

    def stores(self, count: int) -> list[FolderStore]:
        """Return the stores of the buckets, as they were committed."""
        with whole(self.state_file):
            saved = [] if self.state is None else self.state["buckets"]
            self._stores = [FolderStore(self.folder, k, saved[k] if k < len(saved) else None) for k in range(count)]
        return self._stores

    def held(self) -> dict[str, pa.Table]:
        """Return the output that the result merger held back."""
        assert self.state is not None
        with whole(self.state_file):
            files = {name: self.folder / file for name, file in self.state["held"].items()}
        return {name: read_table(file) for name, file in files.items()}

    def batches(self) -> list[Plain]:
        """Return the reports of all micro-batches that count."""
        if self._commit is None:
            return []
        file = self.folder / "batches.jsonl"
        with whole(file):
            written = file.read_bytes()[: self._commit["reports"]]
            if len(written) < self._commit["reports"]:
                raise EOFError
            return [document(file, line) for line in written.splitlines()]

    def clear(self) -> None:
        """Remove what belongs to no commit: a run was killed while it wrote that."""
        needed = set() if self._commit is None else {self._commit["state"], *self._commit["files"]}
        for file in [*self.folder.glob("*.arrow"), *self.folder.glob("state-*.json"), *self.folder.glob(".*.pending")]:
            if file.name not in needed:
                file.unlink()
        with open(self.folder / "batches.jsonl", "ab", opener=private_file) as reports:
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
        state = {"format": FORMAT, **state, "buckets": [store.save(number) for store in self._stores], "held": names}
        reach("tables written")
        file = f"state-{number:08d}.json"
        write_text(self.folder / file, json.dumps(state))
        reach("state written")
        with open(self.folder / "batches.jsonl", "ab", opener=private_file) as log:
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
