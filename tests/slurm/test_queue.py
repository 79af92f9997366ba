"""Reading what Slurm says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm import queue
from slurm.queue import Job, QueueError

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1)
STATES = st.sampled_from([*queue.OVER, "RUNNING", "PENDING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUE_HOLD"])


@given(st.dictionaries(st.tuples(NAMES, st.integers(0, 10**6)), st.tuples(STATES, st.text("n0123456789", max_size=4))))
def test_every_job_is_read(jobs: dict[tuple[str, int], tuple[str, str]]) -> None:
    lines = [f"{name}|{n}|7_{n}|{state}|{node}|a|reason" for (name, n), (state, node) in jobs.items()]
    found = queue.parse("".join(f"{line}\n" for line in lines))
    assert found == {key: Job(f"7_{key[1]}", state, node, "a|reason") for key, (state, node) in jobs.items()}
    assert {key for key, job in found.items() if not job.live} == {
        key for key, (s, _) in jobs.items() if s in queue.OVER
    }


def test_a_job_that_is_no_array_is_the_first_of_one() -> None:
    assert queue.parse("a|N/A|4|FAILED|n2|NonZeroExitCode\n") == {("a", 0): Job("4", "FAILED", "n2", "NonZeroExitCode")}


def test_what_is_no_answer_is_an_error() -> None:
    with pytest.raises(QueueError, match="squeue answered 'slurm is down'"):
        queue.parse("slurm is down\n")


def test_without_a_slurm_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert queue.look([]) == {}, "nobody is asked"
    with pytest.raises(QueueError, match="squeue is not on this machine's PATH"):
        queue.look(["a"])
    with pytest.raises(QueueError, match="scontrol"):
        queue.longest_array()
