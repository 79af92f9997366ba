"""What a program may not do to its judge, nor to the machine."""

import os
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from tasks import sandbox
from tasks.sandbox import run

needs_namespaces = pytest.mark.skipif(not sandbox.confined(), reason="no user, process or network namespace here")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("assert 1 + 1 == 2", "passed"),
        ("", "passed"),
        ("import collections, json, math, re, typing\nassert __name__ == '__main__'", "passed"),
        ("assert 1 + 1 == 3", "failed"),
        ("def f(:", "failed"),
        ("a = '\0'", "failed"),
        ("a = '\ud800'\nassert a == '?'", "passed"),
        ("input()", "failed"),
        ("import numpy", "failed"),
        ("import pytest", "failed"),
        ("raise KeyboardInterrupt", "failed"),
        ("import sys\nsys.exit(0)\nassert False", "exited"),
        ("raise SystemExit", "exited"),
        ("import os\nos._exit(0)\nassert False", "exited"),
        ("import os\nos.execv('/bin/true', ['true'])", "exited"),
        ("import os\nos.abort()", "crashed"),
        ("import ctypes\nctypes.string_at(0)", "crashed"),
        ("a = bytearray(1 << 32)", "memory"),
        ("a = []\nwhile True: a.append(' ' * 100000)", "memory"),
    ],
)
def test_reasons(program: str, reason: str) -> None:
    verdict = run(program, seconds=10, memory_mib=256)
    assert verdict.reason == reason
    assert verdict.passed == (reason == "passed")


def test_the_detail_shows_the_line_that_failed() -> None:
    assert run("x = 1\nassert x == 2").detail == "AssertionError:  at: assert x == 2"


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import time\ntime.sleep(60)",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass",
        "while True: print('x' * 100000)",
    ],
)
def test_an_endless_program_is_stopped_in_time(program: str) -> None:
    start = time.monotonic()
    assert run(program, seconds=0.5).reason == "timeout"
    assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    "program",
    [
        "for _ in range(1000): print('x' * 100000)",
        "import os\nfor _ in range(1000): os.write(2, b'x' * 100000)",
    ],
)
def test_a_flood_of_output_goes_nowhere(program: str) -> None:
    tracemalloc.start()
    verdict = run(program)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.passed
    assert peak < 10**6


@pytest.mark.parametrize("program", ["raise ValueError('x' * 10**6)", "raise SystemExit('x\\n' * 10**6)"])
def test_a_long_last_word_is_cut(program: str) -> None:
    verdict = run(program)
    assert verdict.reason in ("failed", "exited")
    assert 0 < len(verdict.detail) < 500
    assert "\n" not in verdict.detail


def test_a_pass_without_the_token_is_none() -> None:
    forge = """import os
for fd in range(3, 64):
    try: os.write(fd, b'0 passed\\n')
    except OSError: pass
os._exit(0)"""
    assert run(forge).reason == "crashed"


def test_files_land_in_an_empty_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    note = tmp_path / "note"
    verdict = run(
        "import os\nassert os.listdir() == []\nopen('left', 'w').write('x')\nassert os.listdir() == ['left']\n"
        f"open({str(note)!r}, 'w').write(os.getcwd())"
    )
    assert verdict.passed, verdict
    folder = Path(note.read_text())
    assert folder != Path.cwd()
    assert not folder.exists()


def test_a_file_has_a_largest_size() -> None:
    assert run("open('big', 'wb').write(bytes(1 << 19))").passed
    assert "File too large" in run("open('big', 'wb').write(bytes(1 << 24))").detail


def test_the_environment_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    look = "import os\nassert not os.environ, dict(os.environ)\nassert not [a for a in __import__('sys').argv[1:]]"
    assert run(look).passed


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc")
def test_nor_does_the_kernel_know_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    assert run("assert open('/proc/self/environ').read() == ''").passed


def heartbeat(file: Path, before: str = "") -> str:
    """A program whose forked child writes to `file` for ever, and that goes on once the child has begun."""
    return (
        f"import os, time\nfile = {str(file)!r}\nif os.fork() == 0:\n    {before or 'pass'}\n    while True:\n"
        "        open(file, 'a').write('x')\n        time.sleep(0.02)\n"
        "while not os.path.exists(file): time.sleep(0.01)\n"
    )


def beats(file: Path) -> bool:
    """Whether `file` still grows."""
    size = file.stat().st_size
    time.sleep(0.4)
    return file.stat().st_size > size


@pytest.mark.parametrize(
    ("rest", "reason"), [("", "passed"), ("os._exit(0)", "exited"), ("while True: time.sleep(1)", "timeout")]
)
def test_a_child_does_not_outlive_its_program(tmp_path: Path, rest: str, reason: str) -> None:
    assert run(heartbeat(tmp_path / "beat") + rest, seconds=1.5 if reason == "timeout" else 10).reason == reason
    assert not beats(tmp_path / "beat")


@needs_namespaces
@pytest.mark.parametrize(("rest", "reason"), [("", "passed"), ("while True: time.sleep(1)", "timeout")])
def test_nor_does_a_child_that_left_the_group(tmp_path: Path, rest: str, reason: str) -> None:
    assert (
        run(heartbeat(tmp_path / "beat", "os.setsid()") + rest, seconds=1.5 if reason == "timeout" else 10).reason
        == reason
    )
    assert not beats(tmp_path / "beat")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a signal on the parent's death")
def test_a_program_dies_with_a_killed_benchmark(tmp_path: Path) -> None:
    file = tmp_path / "beat"
    program = f"import time\nwhile True:\n    open({str(file)!r}, 'a').write('x')\n    time.sleep(0.02)"
    judge = subprocess.Popen(
        [sys.executable, "-c", f"from tasks import sandbox\nsandbox.run({program!r}, seconds=60)"],
        env={**os.environ, "PYTHONPATH": str(Path(sandbox.__file__).parent.parent)},
    )
    deadline = time.monotonic() + 10
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert beats(file)
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    time.sleep(0.1)
    assert not beats(file)


@needs_namespaces
def test_the_number_of_processes_is_limited() -> None:
    """Two hundred sleeping children at the very most, should the limit fail."""
    bomb = (
        "import os, time\ncount = 0\ntry:\n    while count < 200:\n        if os.fork() == 0: time.sleep(60)\n"
        "        count += 1\nexcept BlockingIOError: pass\nassert 8 < count < 64, count"
    )
    verdict = run(bomb)
    assert verdict.passed, verdict


@needs_namespaces
def test_there_is_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        call = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2)"
        socket.create_connection(("127.0.0.1", port), timeout=2).close()  # it does answer
        verdict = run(call)
    assert verdict.reason == "failed"
    assert "unreachable" in verdict.detail


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_confined_says_what_the_kernel_grants() -> None:
    ask = "import ctypes, sys\nsys.exit(ctypes.CDLL(None).unshare(0x70000000) != 0)"
    assert sandbox.confined() == (subprocess.run([sys.executable, "-c", ask], check=False).returncode == 0)


def test_a_broken_sandbox_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "CHILD", tmp_path / "missing.py")
    with pytest.raises(RuntimeError, match=r"could not start: .*missing\.py"):
        run("")


def test_nothing_is_left_open() -> None:
    before = len(os.listdir("/dev/fd"))
    for program in ("", "assert False", "import os\nos._exit(3)"):
        run(program)
    assert len(os.listdir("/dev/fd")) == before
