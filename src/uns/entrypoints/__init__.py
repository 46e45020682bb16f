"""
The doors: they parse, call one plan or loop, and shape a reply.
"""
