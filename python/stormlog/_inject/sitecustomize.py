"""Put in front of a program by ``stormlog run``; it runs before the program's first line.

It must cost next to nothing: most processes of a run are helpers that use no device. Only a
program that imports a framework gets the recorder. An exception that ends a process is left
in the inbox of the run as a few lines of text, from which the ``stormlog run`` that started
everything makes events and a bundle: a process that ran out of memory can do no more.
"""

import os
import sys

_FRAMEWORKS = ("torch", "jax")
_LONGEST_MESSAGE = 4000
_MOST_FRAMES = 60


class _OnImport:
    """Starts the recorder when the program imports a framework."""

    def find_spec(self, name, path=None, target=None):
        if name in _FRAMEWORKS:
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            try:
                _start_recorder()
            except Exception as error:
                _warn("cannot record this process: %s" % (error,))
        return None


def _start_recorder():
    run = _part("_run")
    if run is not None:
        run.start()


def _part(name):
    """A module of the recorder; None where it cannot be imported."""
    try:
        package = __import__("stormlog", fromlist=[name])
    except ImportError:
        # Not installed for this interpreter; the one that started us may be of use.
        place = os.environ.get("STORMLOG_RUN_PACKAGE")
        if not place:
            return None
        sys.path.append(place)
        try:
            package = __import__("stormlog", fromlist=[name])
        finally:
            sys.path.remove(place)
    return getattr(package, name)


def _warn(text):
    try:
        sys.stderr.write("stormlog: %s\n" % text)
    except Exception:
        pass


def _escaped(text):
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _report(inbox, kind, error, trace):
    """Write what ended this process; whatever fails here must not reach the program."""
    import time

    try:
        message = str(error)
    except Exception:
        message = "(no message)"
    lines = [
        "time_ns %d" % time.time_ns(),
        "pid %d" % os.getpid(),
        "type %s" % _escaped(kind.__name__),
        "module %s" % _escaped(kind.__module__),
        "message %s" % _escaped(message[:_LONGEST_MESSAGE]),
    ]
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        place = "%d %s %s" % (trace.tb_lineno, _escaped(code.co_name), _escaped(code.co_filename))
        frames.append("frame " + place)
        trace = trace.tb_next
    lines += frames[-_MOST_FRAMES:]
    _leave(inbox, lines)
    if _is_of_memory(kind, message):
        # The report is there already: a process without memory may not survive an inspection.
        cause = _cause_of(error)
        if cause:
            _leave(inbox, lines + ["cause " + _escaped(cause)])


def _is_of_memory(kind, message):
    """Whether the error looks like host memory that ran out; devices have recorders of their own."""
    if issubclass(kind, MemoryError):
        return True
    return "DefaultCPUAllocator" in message


def _cause_of(error):
    """What held the memory, as JSON; None where the recorder is not installed."""
    import json

    part = _part("_oom_cause")
    return None if part is None else json.dumps(part.of_exception(error))


def _leave(inbox, lines):
    # The name says which process it was; the rename makes it whole.
    path = os.path.join(inbox, "exception-%d" % os.getpid())
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(path + ".tmp", flags, 0o600)
    try:
        os.write(file, ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
    finally:
        os.close(file)
    os.rename(path + ".tmp", path)


def _watch_exceptions(inbox):
    previous = sys.excepthook

    def on_exception(kind, error, trace):
        try:
            _report(inbox, kind, error, trace)
        except BaseException:
            pass
        previous(kind, error, trace)

    sys.excepthook = on_exception


def _mark_seen(inbox):
    """Let the command know that its hook ran in this process."""
    try:
        os.close(os.open(os.path.join(inbox, "python-%d" % os.getpid()), os.O_CREAT, 0o600))
    except OSError:
        pass


def _begin():
    inbox = os.environ.get("STORMLOG_RUN_INBOX")
    if not inbox or os.environ.get("STORMLOG_DISABLE") == "1":
        return
    _mark_seen(inbox)
    _watch_exceptions(inbox)
    sys.meta_path.insert(0, _OnImport())


def _run_hidden_module():
    """The environment may have a ``sitecustomize`` of its own, which ours has hidden."""
    # The frozen halves of importlib are loaded already; importing the package takes 1 ms.
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != _here]
try:
    _begin()
except Exception as _error:
    _warn("cannot record this process: %s" % (_error,))
_run_hidden_module()
