"""
The simulation: the real loops over the memory store, in virtual time, under one seed.

``run`` is the way in. ``virtual`` is time, ``weather`` what goes wrong, ``world`` what all share.
``process`` wires the service, ``commits`` and ``providers`` stand between it and the outside,
``mishaps`` and ``people`` act on it. ``truth`` and ``watch`` remember what happened; ``structure``
and ``steps`` say what must hold after every commit, ``reruns`` of a plan that was committed twice,
``invariants`` of a run that is over.
"""
