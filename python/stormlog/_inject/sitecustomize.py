"""Python imports this module before the first line of a program that ``stormlog run`` records.

``stormlog run`` puts the folder of this module on the module path of the program. The module must
take almost no time, because most processes of a run are helpers that use no device.
The recorder starts only in a program that imports a framework. An exception that ends a process is
written to the inbox of the run as a few lines of text, because a process that is out of memory can
do no more. The command ``stormlog run`` makes events and a bundle from these lines.

A thread looks once a second for a request of ``stormlog run`` to inspect this process. The command
makes a request when the host memory of the process grows, to learn which of its containers grow.
The inspector (``_host_evidence``) is imported only when a request arrives.

Interpreters of every version run this module, also Python 2, so its syntax is that of both. Before
``_FIRST_VERSION``, and in subinterpreters, it only runs the module that it hides.
"""

import os
import sys

_FIRST_VERSION = (3, 7)
_FRAMEWORKS = ("torch", "jax")
_LONGEST_MESSAGE = 4000
_LONGEST_CHAIN, _LONGEST_LINE = 16, 400
_MOST_FRAMES = 60
# The seconds between two looks for a request, and after how many looks the thread checks that the
# inbox still exists.
_LOOK_S = 1.0
_LOOKS_PER_CHECK = 30
# The stack size of the thread: less than the default, which takes address space from the program.
_STACK_BYTES = 1 << 20
# How long a fork waits at most for the thread to end.
_FORK_PATIENCE_S = 0.1
# How long the exit waits for the thread to end; a look takes less time.
_EXIT_PATIENCE_S = 0.5


class _OnImport:
    """Starts the recorder when the program imports a framework.

    The finder stays in ``sys.meta_path``: a finder that removes itself during an import makes the
    import skip the next finder.
    """

    def __init__(self):
        self._is_waiting = True

    def find_spec(self, name, path=None, target=None):
        if self._is_waiting and name in _FRAMEWORKS:
            self._is_waiting = False
            try:
                _start_recorder()
            except Exception as error:
                _warn("cannot record this process: %s" % (error,))
        return None


def _start_recorder():
    recorder = _own_module("_run")
    if recorder is not None:
        recorder.start()


def _own_module(name):
    """A module of the package; None when it cannot be found."""
    if not _is_importable():
        return None
    name = "stormlog." + name
    __import__(name)
    return sys.modules[name]


def _is_importable():
    """Whether ``import stormlog`` imports our package, and not a module or folder of the program with
    this name, whose code must not run."""
    module = sys.modules.get("stormlog")
    if module is not None:
        return _is_ours(getattr(module, "__file__", None))
    from _frozen_importlib_external import PathFinder

    spec = PathFinder.find_spec("stormlog", sys.path)
    if spec is not None and spec.origin is not None:
        return _is_ours(spec.origin)
    # The package is not installed for this interpreter. The package of the interpreter that runs
    # `stormlog run` may work. Python prefers it to a folder without `__init__.py`, such as one with
    # recordings, wherever the two are on the path.
    package = os.environ.get("STORMLOG_RUN_PACKAGE")
    if not package or not _is_ours(os.path.join(package, "stormlog", "__init__.py")):
        return False
    sys.path.append(package)
    try:
        __import__("stormlog")
    except ImportError:
        # The package is for other versions of Python.
        return False
    finally:
        sys.path.remove(package)
    return True


def _is_ours(file):
    """Whether a file is the first module of the package to which this hook belongs."""
    folder, name = os.path.split(file or "")
    return name == "__init__.py" and os.path.isfile(os.path.join(folder, "_inject", "sitecustomize.py"))


def _warn(text):
    try:
        sys.stderr.write("stormlog: %s\n" % text)
    except Exception:
        pass


def _escaped(text):
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _report(inbox, kind, error, trace):
    """Write the exception that ended this process to the inbox. The caller must catch all errors,
    because the program must not see them."""
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
    chain = _chain(error)
    lines += ["chain " + _escaped(_described(one)) for one in chain]
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        place = "%d %s %s" % (trace.tb_lineno, _escaped(code.co_name), _escaped(code.co_filename))
        frames.append("frame " + place)
        trace = trace.tb_next
    lines += frames[-_MOST_FRAMES:]
    _leave(inbox, lines)
    failed = [one for one in [error] + chain if _is_of_memory(type(one), _first_line(one))]
    if failed:
        # The report is already written, because a process without memory may not survive an
        # inspection.
        cause = _cause_of(failed[0])
        if cause:
            _leave(inbox, lines + ["cause " + _escaped(cause)])


def _chain(error):
    """The exceptions that an exception was raised from, or that were handled when it was raised. The
    exceptions of a group count too."""
    group = getattr(__import__("builtins"), "BaseExceptionGroup", ())
    found, waiting, seen = [], [error], set()
    while waiting and len(seen) < _LONGEST_CHAIN:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if one is not error:
            found.append(one)
        waiting += list(one.exceptions)[::-1] if isinstance(one, group) else []
        waiting.append(one.__context__)
        waiting.append(one.__cause__)
    return found


def _described(error):
    """Class and first line of the message of an exception."""
    kind = type(error)
    return "%s.%s: %s" % (kind.__module__, kind.__name__, _first_line(error))


def _first_line(error):
    try:
        return (str(error).splitlines() or [""])[0][:_LONGEST_LINE]
    except Exception:
        return "(no message)"


def _is_of_memory(kind, message):
    """Whether the error says that host memory ran out. Errors of devices are handled by the
    recorders of the devices."""
    if issubclass(kind, MemoryError):
        return True
    # As in `crates/capture/src/oom/classify.rs`. The package is not imported here, because a
    # program must be able to start without it.
    return "DefaultCPUAllocator" in message


def _cause_of(error):
    """The cause of the error (which line failed and what held the memory) as JSON; None when the
    package is not installed."""
    import json

    part = _own_module("_oom_cause")
    return None if part is None else json.dumps(part.of_exception(error))


def _leave(inbox, lines):
    # The name contains the process id, so each process has its own file. The rename makes sure that
    # a reader never sees an incomplete file.
    path = os.path.join(inbox, "exception-%d" % os.getpid())
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    # The file object writes everything or raises an error; `os.write` may write a part.
    with open(os.open(path + ".tmp", flags, 0o600), "wb") as file:
        file.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
    os.rename(path + ".tmp", path)


def _watch_exceptions(inbox):
    previous = sys.excepthook

    def on_exception(kind, error, trace):
        if _ends_the_process(error):
            try:
                _report(inbox, kind, error, trace)
            except BaseException:
                pass
        previous(kind, error, trace)

    # Some modules of the standard library and of GUI toolkits behave differently when the two are not
    # the same.
    if sys.excepthook is sys.__excepthook__:
        sys.__excepthook__ = on_exception
    sys.excepthook = on_exception


def _ends_the_process(error):
    """Whether the interpreter itself reports the error. A program may call the hook for an error after
    which it goes on, and an interactive interpreter goes on after every error."""
    if sys.flags.interactive or sys.flags.inspect or os.environ.get("PYTHONINSPECT"):
        return False
    return not hasattr(sys, "ps1") and getattr(sys, "last_value", None) is error


def _mark_seen(inbox):
    """Leave a file that shows ``stormlog run`` that its hook ran in this process."""
    _mark(inbox, "python")


def _mark(inbox, kind):
    try:
        os.close(os.open(os.path.join(inbox, "%s-%d" % (kind, os.getpid())), os.O_CREAT, 0o600))
    except OSError:
        pass


class _Listener:
    """Waits on a separate thread for a request of ``stormlog run`` to inspect this process.

    The module ``threading`` does not list the thread. The thread receives no signals, and the
    process does not wait for it at exit.
    """

    def __init__(self, inbox):
        self._inbox = inbox
        self._inspection = None
        self._looks = 0
        self._end = self._ended = None
        self._starts_after_collection = False

    def start(self):
        """Start the thread. If it cannot be started, the process is recorded without it."""
        import _signal
        import _thread

        self._request = os.path.join(self._inbox, "inspect-%d" % os.getpid())
        end, ended = _thread.allocate_lock(), _thread.allocate_lock()
        end.acquire()
        ended.acquire()
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            size = _thread.stack_size(_STACK_BYTES)
            try:
                _thread.start_new_thread(self._listen, (end, ended))
                self._end, self._ended = end, ended
            finally:
                _thread.stack_size(size)
        except Exception:
            # No thread could be started, or the interpreter shuts down.
            self._end = None
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)

    def stop(self):
        """Ask the thread to end, which may take a moment."""
        if self._end is not None:
            self._end.release()
            self._end = None

    def stop_for_good(self):
        """End the thread before the interpreter shuts down.

        At its shutdown the interpreter would end the thread with ``pthread_exit``, which
        loads libgcc_s and aborts the process when no memory is left for that library.
        """
        # The interpreter then frees all objects, which takes long if there are many.
        _mark(self._inbox, "ended")
        if self._end is not None:
            self.stop()
            self._wait_for_end(_EXIT_PATIENCE_S)

    def _wait_for_end(self, patience):
        import time

        deadline = time.monotonic() + patience
        if self._ended.acquire(True, patience):
            while os.path.exists(self._task) and time.monotonic() < deadline:
                time.sleep(0.00002)

    def before_fork(self):
        """End our thread before a fork if the process would otherwise have only one thread.

        Python 3.12 warns about forks in a process with several threads. It counts the threads
        after the fork has returned in the parent, so our thread can start again only later: at the
        next garbage collection.
        """
        if self._end is None:
            return
        try:
            threads = len(os.listdir("/proc/self/task"))
        except OSError:
            # The process may have no file descriptor left. Then Python cannot count the threads
            # either, and does not warn.
            return
        if threads > 2:
            return
        self.stop()
        self._wait_for_end(_FORK_PATIENCE_S)
        self._start_after_collection()

    def _start_after_collection(self):
        import gc

        self._starts_after_collection = True
        if self._after_collection not in gc.callbacks:
            gc.callbacks.append(self._after_collection)

    def _after_collection(self, phase, _info):
        # The callback stays in `gc.callbacks`: if it removed itself here, Python would skip the
        # next callback.
        if self._starts_after_collection and phase == "stop":
            self._starts_after_collection = False
            self.start()

    def start_in_child(self):
        """In a child process after a fork, start to listen for requests that are sent to the child.

        A child may need a single thread, for example to enter a namespace. A worker of
        ``multiprocessing`` gets its thread at once. Other children, such as the workers of a server,
        get it after the next garbage collection, and a child that ``subprocess`` forks to run another
        program gets none.
        """
        _mark_seen(self._inbox)
        self._starts_after_collection = False
        self._inspection = None
        self._end = None
        caller = sys._getframe(1)
        module = caller.f_globals.get("__name__")
        if module == "multiprocessing.popen_fork":
            self.start()
        elif module != "subprocess":
            self._start_after_collection()

    def _listen(self, end, ended):
        import _thread

        self._task = "/proc/self/task/%d" % _thread.get_native_id()
        pause = _LOOK_S
        try:
            while pause is not None and not end.acquire(True, pause):
                pause = self._look()
        except BaseException:
            # The inspector failed or memory ran out, so there is no answer.
            self._inspection = None
        finally:
            ended.release()

    def _look(self):
        """Continue an inspection or look for a request; return the seconds until the next look."""
        if self._inspection is not None:
            pause = self._inspection.step()
            if pause is not None:
                return pause
            self._inspection = None
            return _LOOK_S
        self._looks += 1
        try:
            os.stat(self._request)
        except OSError:
            # There is no request. The command may have ended and removed its inbox.
            is_due = self._looks % _LOOKS_PER_CHECK == 0
            return None if is_due and not os.path.isdir(self._inbox) else _LOOK_S
        import time

        began = time.thread_time()
        inspector = _own_module("_host_evidence")
        if inspector is None:
            return None
        spent = time.thread_time() - began
        self._inspection = inspector.Inspection(self._inbox, self._request, spent)
        return 0.0


def _has_limit_on_address_space():
    """Whether the address space is limited. The C library reserves 64 MiB of it for every
    thread, which the program may need."""
    try:
        # As bytes: a file opened as text without an encoding can be a warning of the interpreter.
        with open("/proc/self/limits", "rb") as limits:
            for line in limits:
                if line.startswith(b"Max address space"):
                    return line.split()[3] != b"unlimited"
    except OSError:
        pass
    return False


def _listen(inbox):
    import atexit

    if _has_limit_on_address_space():
        return

    listener = _Listener(inbox)
    listener.start()
    atexit.register(listener.stop_for_good)
    if sys.version_info >= (3, 12):
        os.register_at_fork(before=listener.before_fork)
    os.register_at_fork(after_in_child=listener.start_in_child)


def _begin():
    inbox = os.environ.get("STORMLOG_RUN_INBOX")
    if not inbox or os.environ.get("STORMLOG_DISABLE") == "1" or not _is_main_interpreter():
        return
    _mark_seen(inbox)
    _watch_exceptions(inbox)
    # Before Python 3.8 no listener is started. It would be of no use: the inspector is part of the
    # package, which needs Python 3.10.
    if sys.platform == "linux" and sys.version_info >= (3, 8):
        _listen(inbox)
    sys.meta_path.insert(0, _OnImport())


def _is_main_interpreter():
    """Whether this is no subinterpreter. A subinterpreter that still exists at the end of the process
    must not have a thread, or the interpreter aborts."""
    import _signal

    try:
        # Only the main interpreter may set the descriptor for signals, and only in its main thread,
        # in which this module runs there.
        before = _signal.set_wakeup_fd(-1)
    except ValueError:
        return False
    if before != -1:
        _signal.set_wakeup_fd(before)
    return True


def _run_hidden_module():
    """Run the module ``sitecustomize`` of the environment, which this module has hidden."""
    if sys.version_info < (3, 4):
        import imp

        try:
            found = imp.find_module("sitecustomize", sys.path)
        except ImportError:
            return
        # Python 2 clears the variables of a module that nothing refers to any more.
        _ours = sys.modules.pop("sitecustomize")
        imp.load_module("sitecustomize", *found)
        return
    # These two modules contain the code of ``importlib`` and are already loaded. Importing
    # ``importlib`` itself would take 1 ms.
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
if sys.version_info >= _FIRST_VERSION:
    try:
        _begin()
    except Exception as _error:
        _warn("cannot record this process: %s" % (_error,))
_run_hidden_module()
