"""
Outgoing HTTP that cannot be led inside the network, nor be kept waiting, nor be made to tell secrets.

Every HTTP channel and the callback go through ``GuardedClient`` and have what came of it judged by
``classify``.
"""

from uns.adapters.egress.addresses import Egress, is_public
from uns.adapters.egress.client import Answer, GuardedClient
from uns.adapters.egress.destination import Destination, destination
from uns.adapters.egress.errors import EgressError, Failed, Refused
from uns.adapters.egress.network import Resolve, SystemResolver
from uns.adapters.egress.outcome import classify, retry_after

__all__ = [
    "Answer",
    "Destination",
    "Egress",
    "EgressError",
    "Failed",
    "GuardedClient",
    "Refused",
    "Resolve",
    "SystemResolver",
    "classify",
    "destination",
    "is_public",
    "retry_after",
]
