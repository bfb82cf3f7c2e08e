"""Follows a value on the interpreter's stack through byte code, without running it."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable

# Instructions that do not change the stack.
IGNORED = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME", "NOT_TAKEN"}
_PERMUTING = ("SWAP", "ROT_")
_WITHOUT_RESULT = ("STORE_", "POP_", "DELETE_", "RETURN_", "RAISE_", "LIST_", "SET_", "DICT_")
_READING_TOP = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")


def consumer(
    instructions: Iterable[dis.Instruction], above: int
) -> tuple[dis.Instruction, int] | None:
    """The first instruction that takes a value from the stack on which ``above`` other values lie,
    and how many values lie above it then. None when a jump comes first, because the paths may use
    the value differently."""
    for instruction in instructions:
        name = instruction.opname
        if name.startswith(_PERMUTING):
            if (instruction.arg or 4) > above:
                return instruction, above
            continue
        effect = _effect(instruction)
        if _taken(name, effect) > above:
            return instruction, above
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            return None
        above += effect
    return None


def _effect(instruction: dis.Instruction) -> int:
    """By how much an instruction changes the height of the stack."""
    argument = instruction.arg or 0
    if sys.version_info[:2] == (3, 11) and instruction.opname == "CALL":
        # Python 3.11 divides the effect between this instruction and PRECALL.
        return -argument - 1
    takes = instruction.opcode >= dis.HAVE_ARGUMENT
    return dis.stack_effect(instruction.opcode, argument if takes else None, jump=False)


def _taken(name: str, effect: int) -> int:
    """The number of values that an instruction takes from the stack."""
    if name.startswith(_READING_TOP) or name in ("GET_ITER", "FOR_ITER", "UNPACK_SEQUENCE"):
        return 1
    if name.startswith("LOAD_") or name in ("COPY", "DUP_TOP", "DUP_TOP_TWO", "PUSH_NULL"):
        return 0
    return (0 if name.startswith(_WITHOUT_RESULT) else 1) - effect
