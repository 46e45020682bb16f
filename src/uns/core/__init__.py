"""
The verbs: pure rules, the plans that feed them, and the loops that drive the plans.
"""
