"""
The nouns and the sockets: row types, commands, errors, and the protocols that adapters fill.

Nothing here decides: what there is beside the types checks the form of what comes in. Instants are
Unix seconds (``float``), ids are text UUIDs, and a lease, window or deadline ``t`` has ended *at* ``t``.
"""
