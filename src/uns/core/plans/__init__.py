"""
One transaction each: read what a rule needs, ask it, apply what it decided.
"""
