"""The other side of `sandbox.run`: a script that confines itself, then runs the program of its order.

It is started once per program, so it imports little; nothing here is for importing.
"""

import os
import resource
import signal
import sys

PROCESSES = 32
FILE_BYTES = 1 << 20
NOBODY = 65534


def main() -> None:
    """Take the order from standard input, run the program in a fork, watch over the fork, and die."""
    order, _, program = sys.stdin.buffer.read().decode().partition("\n")
    token, report, memory, cpu = order.split()
    isolate()
    for kind, value in (
        (resource.RLIMIT_AS, int(memory)),
        (resource.RLIMIT_CPU, int(cpu)),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        limit(kind, value)
    if (child := os.fork()) == 0:
        die_with_parent()
        limit(resource.RLIMIT_NPROC, PROCESSES)  # after our own fork: it may count all processes of the user
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        execute(program, int(report), token)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    ending = f"exited status {code}" if code >= 0 else f"crashed signal {-code}"
    os.write(int(report), f"{token} {ending}\n".encode())  # of no effect after a report of the child's own
    os.killpg(0, signal.SIGKILL)  # whoever is left, and this process


def execute(program: str, report: int, token: str) -> None:
    """Run the program as `__main__` and write one line on how it ended, if it lets us."""
    out_of_memory = f"{token} memory\n".encode()  # made while there still is some
    os.environ.clear()  # the interpreter may have set LC_CTYPE
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    try:
        exec(compile(program, "<program>", "exec"), module.__dict__)
        message = "passed"
    except SystemExit as leave:
        message = f"exited {leave!r}"
    except MemoryError:
        os.write(report, out_of_memory)
        return
    except BaseException as error:  # noqa: BLE001
        inside = error.__traceback__ and error.__traceback__.tb_next
        line = f" at: {program.splitlines()[inside.tb_lineno - 1].strip()[:150]}" if inside else ""
        message = f"failed {type(error).__name__}: {str(error)[:150]}{line}"
    os.write(report, f"{token} {' '.join(message[:400].splitlines())}\n".encode(errors="replace"))


def isolate() -> None:
    """New user, network and process namespaces, if the kernel grants them: a refusal is no error."""
    if os.getuid() == 0:
        try:  # noqa: SIM105 - contextlib would double the time to start
            os.setresuid(NOBODY, 0, 0)  # the limit on processes spares root; files are still read as root
        except OSError:
            pass  # a container without such a user
    die_with_parent()
    if sys.platform == "linux":
        import ctypes

        new_user, new_process, new_network = 0x10000000, 0x20000000, 0x40000000
        ctypes.CDLL(None).unshare(new_user | new_process | new_network)


def die_with_parent() -> None:
    """Else a killed benchmark would leave sleeping programs behind."""
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGKILL))


def limit(kind: int, value: int) -> None:
    """Lower a limit; one that is lower already stays. macOS takes none on the address space."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    if not (sys.platform == "darwin" and kind == resource.RLIMIT_AS):
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main()
