"""Evidence windows: a few steps in which PyTorch records which lines allocate memory that stays.

PyTorch can record the Python stack of every allocation. This makes a training loop whose speed is
limited by Python 11 to 13 % slower. A window switches the recording on at the end of a step and off
some steps later. A block keeps its stack until it is freed, and a block that was allocated while
nothing was recorded has no stack. So one snapshot some steps after the window shows the blocks that
survived the window: the blocks that have a stack and were in no earlier snapshot.

``Windows`` opens the windows of one device. In a program with steps, it opens them on the training
thread at the ends of steps, when the memory level at the ends of steps rises; ``_core.StepHook``
notices the rise. In a program without steps, each window lasts a fixed time. A separate thread
groups the survivors by stack, searches for their holders and records each state of the search as an
event ``memory_evidence``. All of this together takes at most 300 ms of the program's time in any
minute.
"""

from .windows import Windows

__all__ = ["Windows"]
