"""
The lifecycle diagram, drawn from a table of moves. Run as a script, it prints the one of today.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping

from uns.core.rules.lifecycle import MOVES, Move, Phase

Moves = Mapping[tuple[Phase | None, Move], Collection[Phase]]


def lifecycle_diagram(moves: Moves) -> str:
    """
    A mermaid state diagram: one arrow for each pair of phases, named by the moves that lead there.

    Phases that no move leads out of end the diagram. Order is that of the vocabularies.
    """
    arrows = [
        f"    {_name(start)} --> {_name(end)}: {', '.join(_between(moves, start, end))}"
        for start in (None, *Phase)
        for end in Phase
        if _between(moves, start, end)
    ]
    leaves = {start for start, _ in moves}
    ends = [f"    {phase} --> [*]" for phase in Phase if phase not in leaves]
    return "\n".join(["stateDiagram-v2", *arrows, *ends])


def _between(moves: Moves, start: Phase | None, end: Phase) -> list[str]:
    return [move for move in Move if end in moves.get((start, move), ())]


def _name(phase: Phase | None) -> str:
    return "[*]" if phase is None else phase


if __name__ == "__main__":
    sys.stdout.write(f"{lifecycle_diagram(MOVES)}\n")
