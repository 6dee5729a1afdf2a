"""Mail: messages that runs send to other buckets, which read them in the next micro-batch, each once.

    bucket ──▶ messages ──▶ host: keeps them under the number of the micro-batch ──▶ the next one ──▶ bucket

Buckets are addressed by their places, 0, 1, 2, ... A bucket gets what was sent to it in order of the senders' places,
and of one sender as it was sent.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """A message from one bucket to another; what `kind` and `body` mean is for those who send and receive it."""

    to: int
    kind: str
    body: bytes
    sender: int = 0


def mail_for(place: int, sent: Iterable[Message]) -> list[Message]:
    """Return what was sent to a bucket, in the order in which it gets it.

    >>> sent = [Message(0, "b", b"", 2), Message(1, "x", b"", 2), Message(0, "c", b"", 2), Message(0, "a", b"", 1)]
    >>> [message.kind for message in mail_for(0, sent)]
    ['a', 'b', 'c']
    """
    return sorted((m for m in sent if m.to == place), key=lambda m: m.sender)


def size_of(mail: Iterable[Message]) -> int:
    """Return the bytes of messages on their way between buckets; what a bucket sends to itself goes nowhere."""
    return sum(len(m.body) for m in mail if m.to != m.sender)
