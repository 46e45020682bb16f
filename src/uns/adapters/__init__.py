"""
One plug per outside thing. Adapters know the ports, and neither the core nor each other's insides.
"""
