"""
The nouns and the sockets: row types, commands, errors, and the protocols that adapters fill.

Nothing here has logic beyond a property. Instants are Unix seconds (``float``), ids are text
UUIDs, and a lease, window or deadline ``t`` has ended *at* ``t``.
"""
